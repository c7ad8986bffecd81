package qemu

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// speak is the other end of a QMP connection: it greets, and then answers each line with the next of the answers.
func speak(t *testing.T, answers ...string) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close() })
	go func() {
		defer theirs.Close()
		io.WriteString(theirs, `{"QMP":{"version":{}}}`+"\n")
		lines := bufio.NewScanner(theirs)
		for _, a := range answers {
			if !lines.Scan() {
				return
			}
			io.WriteString(theirs, a+"\n")
		}
	}()
	return ours
}

func TestQMPSkipsEventsAndReportsErrors(t *testing.T) {
	q, err := newQMP(speak(t, `{"return":{}}`, `{"event":"STOP"}`+"\n"+`{"return":{"status":"running"}}`,
		`{"error":{"class":"GenericError","desc":"no such thing"}}`), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Status string }
	if err := q.execute("query-status", time.Minute, &got); err != nil || got.Status != "running" {
		t.Errorf("%+v %v", got, err)
	}
	if err := q.execute("query-nothing", time.Minute, nil); err == nil ||
		!strings.Contains(err.Error(), "no such thing") {
		t.Errorf("a refusal gives: %v", err)
	}
	if err := q.execute("query-status", time.Minute, nil); err == nil {
		t.Error("a connection that ended gave no error")
	}
}

func TestQMPDoesNotWaitForEver(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	if _, err := newQMP(ours, 20*time.Millisecond); err == nil {
		t.Error("a silent QEMU was taken for one that greets")
	}
}

func FuzzReadQMP(f *testing.F) {
	f.Add([]byte(`{"QMP":{"version":{}}}` + "\n" + `{"return":{}}` + "\n" + `{"event":"RESET"}` + "\n"))
	f.Add([]byte("\n\n{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bufio.NewReader(strings.NewReader(string(b)))
		for n := 0; ; n++ {
			if _, err := readQMP(r); err != nil {
				return
			}
			if n > len(b) {
				t.Fatal("more messages than bytes")
			}
		}
	})
}

func TestQMPMessagesAreBounded(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`{"QMP":"`), neverEnding{})
	if _, err := readQMP(bufio.NewReader(endless)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("an endless message gives: %v", err)
	}
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

package qemu

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// speak is the other end of a QMP connection: it greets, and then answers each line with the next of the answers,
// with the id of the request.
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
			id := `{"id":` + idOf(lines.Bytes()) + ","
			io.WriteString(theirs, strings.NewReplacer(`{"return"`, id+`"return"`, `{"error"`, id+`"error"`).Replace(a)+"\n")
		}
	}()
	return ours
}

// idOf is the id of a request.
func idOf(request []byte) string {
	var q struct{ ID json.Number }
	if err := json.Unmarshal(request, &q); err != nil {
		return err.Error()
	}
	return string(q.ID)
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

// An answer that comes after its limit, even in two pieces, is not taken for that of the next request.
func TestQMPLateAnswersAreLeft(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	second := make(chan string, 1)
	go func() {
		io.WriteString(theirs, `{"QMP":{}}`+"\n")
		lines := bufio.NewScanner(theirs)
		lines.Scan()
		io.WriteString(theirs, `{"return":{},"id":`+idOf(lines.Bytes())+"}\n")
		lines.Scan()
		late := `{"return":{"n":1},"id":` + idOf(lines.Bytes()) + "}\n"
		io.WriteString(theirs, late[:12])
		lines.Scan() // the next request: the limit of the first one is over
		io.WriteString(theirs, late[12:]+`{"error":{"desc":"older"},"id":1}`+"\n"+
			`{"return":{"n":2},"id":`+idOf(lines.Bytes())+"}\n")
		lines.Scan()
		second <- lines.Text()
	}()
	q, err := newQMP(ours, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ N int }
	if err := q.execute("query-stats", 50*time.Millisecond, &got); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("an answer that does not come gives: %v", err)
	}
	if err := q.execute("query-stats", time.Minute, &got); err != nil || got.N != 2 {
		t.Errorf("after a late answer: %+v, %v", got, err)
	}
	if err := q.execute("query-stats", 50*time.Millisecond, &got); err == nil || <-second == "" {
		t.Errorf("a third request gives: %v", err)
	}
}

// A connection on which a request was cut off, or something unreadable came, is not used again.
func TestQMPBrokenStaysBroken(t *testing.T) {
	q, err := newQMP(speak(t, `{"return":{}}`, `{"return":`, `{"return":{}}`), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := q.execute("query-status", time.Minute, nil); err == nil {
			t.Error("half a message gave no error")
		}
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
		q := &qmp{r: bufio.NewReader(strings.NewReader(string(b)))}
		for n := 0; ; n++ {
			if _, err := q.read(); err != nil {
				return
			}
			if n > len(b) {
				t.Fatal("more messages than bytes")
			}
		}
	})
}

func TestQMPMessagesAreBounded(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`{"QMP":"`), endlessMessage{})
	if _, err := (&qmp{r: bufio.NewReader(endless)}).read(); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("an endless message gives: %v", err)
	}
}

type endlessMessage struct{}

func (endlessMessage) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

package sock_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/sys/sock"
	"tare/internal/sys/thread"
)

// A receiver that has answered before confirms what comes as one that never said anything.
func TestAReceiverIsNoConversation(t *testing.T) {
	defer thread.Room(2)()
	here, there := joined(t, 1)
	var b [1]byte
	for range 8 { // as many answers as any kernel needs to take it for a conversation
		for _, err := range []error{sock.WriteFull(here[0], b[:]), sock.ReadFull(there[0], b[:]),
			sock.WriteFull(there[0], b[:]), sock.ReadFull(here[0], b[:])} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if !conversation(t, there[0]) {
		t.Fatal("the kernel does not take eight answers for a conversation")
	}
	const amount = 1 << 20
	ended := make(chan error, 1)
	go func() { ended <- sock.Send(here[0], make([]byte, 4096), amount) }()
	if err := sock.Receive(there[0], make([]byte, 4096), amount, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if conversation(t, there[0]) {
		t.Error("the kernel still takes it for a conversation")
	}
}

// conversation tells whether the kernel delays the confirmations of a connection over IPv4 because the program answers
// what it gets: the last bit of the column after ato in /proc/net/tcp ("pingpong").
func conversation(t *testing.T, fd sock.FD) bool {
	t.Helper()
	var file unix.Stat_t
	if err := unix.Fstat(fd, &file); err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 15 || f[9] != strconv.FormatUint(file.Ino, 10) {
			continue
		}
		n, err := strconv.Atoi(f[14])
		if err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		return n&1 == 1
	}
	t.Fatalf("no connection with inode %d in\n%s", file.Ino, table)
	return false
}

//go:build unix

package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const patientVar = "TARE_TEST_PATIENT"

// TestPatienceOutlastsAStop stops a real process for twice as long as its patience, which is then as good as whole, and
// still ends.
func TestPatienceOutlastsAStop(t *testing.T) {
	if os.Getenv(patientVar) != "" {
		bePatient()
		return
	}
	t.Parallel()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), patientVar+"=1")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "waiting" {
		t.Fatalf("it said %q", lines.Text())
	}
	c.Process.Signal(syscall.SIGSTOP)
	time.Sleep(2 * patienceOfTest)
	c.Process.Signal(syscall.SIGCONT)
	in.Close()
	rest, _ := io.ReadAll(out)
	if err := c.Wait(); err != nil || !strings.HasPrefix(lines.Text()+"\n"+string(rest),
		"waiting\nawake: <nil>\nover: context deadline exceeded\n") {
		t.Errorf("%v: %s", err, rest)
	}
}

const patienceOfTest = 2 * time.Second

// bePatient waits until it is told that it goes on, and says how its patience does and that it ends.
func bePatient() {
	ctx, cancel := WithTimeout(context.Background(), patienceOfTest)
	defer cancel()
	fmt.Println("waiting")
	io.ReadAll(os.Stdin) // ends when the stop has
	time.Sleep(timeoutTick / 5)
	fmt.Println("awake:", ctx.Err())
	<-ctx.Done()
	fmt.Println("over:", ctx.Err())
}

// Whoever asks why learns what they would of context.WithTimeout, below a context of another end as well.
func TestPatienceEndsAsATimeoutDoes(t *testing.T) {
	mine := errors.New("mine")
	for name, c := range map[string]struct {
		patience time.Duration
		end      func(parent, own context.CancelFunc)
		err      error
		cause    error
	}{
		"over": {time.Millisecond, func(_, _ context.CancelFunc) {}, context.DeadlineExceeded,
			context.DeadlineExceeded},
		"given up":          {time.Hour, func(_, own context.CancelFunc) { own() }, context.Canceled, context.Canceled},
		"given up by above": {time.Hour, func(parent, _ context.CancelFunc) { parent() }, context.Canceled, mine},
	} {
		above, cancelAbove := context.WithCancelCause(t.Context())
		ctx, cancel := WithTimeout(above, c.patience)
		below, cancelBelow := context.WithCancel(ctx)
		c.end(func() { cancelAbove(mine) }, cancel)
		for which, ctx := range map[string]context.Context{"itself": ctx, "below it": below} {
			<-ctx.Done()
			if ctx.Err() != c.err || context.Cause(ctx) != c.cause {
				t.Errorf("%s, %s: %v because of %v, want %v because of %v", name, which, ctx.Err(), context.Cause(ctx),
					c.err, c.cause)
			}
		}
		cancel()
		cancelBelow()
		cancelAbove(nil)
	}
}

// What is over begins nothing: a program is started only where the context says, at once, that it may be.
func TestNoPatienceBelowAnEnd(t *testing.T) {
	over, end := context.WithCancel(t.Context())
	end()
	ctx, cancel := WithTimeout(over, time.Hour)
	defer cancel()
	if ctx.Err() != context.Canceled {
		t.Errorf("%v, want %v", ctx.Err(), context.Canceled)
	}
}

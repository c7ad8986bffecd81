package line

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// tenBits is how long a byte takes at 115,200 baud.
const tenBits = time.Second * 10 / 115200

// Mangling of a line, each with its own randomness.

func losing(share float64) func(b []byte) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	return func(b []byte) []byte {
		out := b[:0]
		for _, c := range b {
			if r.Float64() >= share {
				out = append(out, c)
			}
		}
		return out
	}
}

func flipping(share float64) func(b []byte) []byte {
	r := rand.New(rand.NewPCG(3, 4))
	return func(b []byte) []byte {
		for i := range b {
			if r.Float64() < share {
				b[i] ^= 1 << r.IntN(8)
			}
		}
		return b
	}
}

// talking is a kernel that prints to the line at any time.
func talking(text string, share float64) func(b []byte) []byte {
	r := rand.New(rand.NewPCG(5, 6))
	return func(b []byte) []byte {
		if r.Float64() < share {
			at := r.IntN(len(b) + 1)
			b = append(b[:at:at], append([]byte(text), b[at:]...)...)
		}
		return b
	}
}

func TestStreamSurvivesItsLine(t *testing.T) {
	for _, c := range []struct {
		name    string
		size    int
		perByte time.Duration
		mangle  func() func([]byte) []byte
		echo    bool
	}{
		{name: "a clean line", size: 1 << 20},
		{name: "115,200 baud", size: 100 << 10, perByte: tenBits},
		{name: "lost bytes", size: 200 << 10, perByte: tenBits,
			mangle: func() func([]byte) []byte { return losing(1e-4) }},
		{name: "flipped bits", size: 200 << 10, mangle: func() func([]byte) []byte { return flipping(2e-4) }},
		{name: "a kernel that prints", size: 200 << 10,
			mangle: func() func([]byte) []byte {
				return talking("[    1.5] virtio_blk virtio1: {~} sd 0:0:0:0\r\n", 0.004)
			}},
		{name: "an echo", size: 100 << 10, perByte: tenBits, echo: true},
		{name: "an echo and lost bytes", size: 50 << 10, echo: true,
			mangle: func() func([]byte) []byte { return losing(1e-4) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			// An echo and a tenth of all frames lost cost less than that. One run in a thousand loses a frame five
			// times in a row and waits 9 s for it alone, so the fastest of three counts.
			best := c.perByte * time.Duration(c.size)
			bound := 5*best + time.Duration(c.size/1000)*100*time.Millisecond
			var took time.Duration
			for try := 0; try < 3 && (try == 0 || took > bound); try++ {
				synctest.Test(t, func(t *testing.T) {
					line := newCable(t)
					for _, w := range []*wire{line.toGuest, line.toHost} {
						w.perByte = c.perByte
						if c.mangle != nil {
							w.mangle = c.mangle()
						}
					}
					if c.echo { // by each end, of what comes from the other one
						line.toGuest.copies = func(b []byte) { line.toHost.push(b) }
					}
					took = exchanged(t, line, c.size)
				})
			}
			if took > bound {
				t.Errorf("it took %v, and %v on a line without faults", took, best)
			}
		})
	}
}

// exchanged has a session on a line move so many bytes each way, and ends it. It returns how long the bytes took.
func exchanged(t *testing.T, line *cable, size int) time.Duration {
	host, guest, l := line.session(t)
	defer l.Close()
	began := time.Now()
	exchange(t, host, guest, size)
	took := time.Since(began)
	t.Logf("%d bytes each way in %v; controller: %v, guest: %v", size, took, host.Facts(), guest.Facts())
	done := make(chan struct{})
	go func() { defer close(done); guest.Close() }()
	if err := host.Close(); err != nil {
		t.Error(err)
	}
	<-done
	return took
}

// TestIdleSessionIsSilent: nothing must disturb a measurement.
func TestIdleSessionIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := newCable(t)
		host, guest, _ := line.session(t)
		host.Write([]byte("run"))
		io.ReadFull(guest, make([]byte, 3))
		time.Sleep(time.Minute)
		before := line.toGuest.bytes() + line.toHost.bytes()
		time.Sleep(24 * time.Hour)
		if n := line.toGuest.bytes() + line.toHost.bytes() - before; n > 0 {
			t.Errorf("%d bytes were sent in a day without data", n)
		}
	})
}

// TestFlush: what was written has crossed the line when Flush returns, and nobody waits for a session that has ended.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := newCable(t)
		line.toHost.perByte = tenBits
		host, guest, _ := line.session(t)
		began := time.Now()
		guest.Write(make([]byte, 1000))
		if took := time.Since(began); took > 0 {
			t.Errorf("a write of what there is room for took %v", took)
		}
		if err := guest.Flush(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 1000*tenBits {
			t.Errorf("%d bytes crossed the line in %v", 1000, took)
		}
		host.Close()
		line.toHost.close()
		guest.Write([]byte("nobody"))
		ended := make(chan error, 1)
		go func() { ended <- guest.Flush() }()
		guest.Close()
		if err := <-ended; err == nil {
			t.Error("what nobody has read was flushed")
		}
	})
}

func TestControllerComesLateAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := newCable(t)
		l := Listen(line.guest())
		defer l.Close()
		// Nobody listens for an hour, so the line's buffer is full of old calls.
		time.Sleep(time.Hour)
		for i := range 3 {
			host := line.dial(t)
			guest, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			host.Write([]byte("hello"))
			if _, err := io.ReadFull(guest, make([]byte, 5)); err != nil {
				t.Fatal(err)
			}
			if i == 2 {
				break
			}
			// The controller is killed while the guest has much to say.
			done := make(chan error, 1)
			go func() { _, err := guest.Write(make([]byte, 1<<20)); done <- err }()
			time.Sleep(10 * time.Minute)
			host.p.rw.Close()
			host.p.close()
			time.Sleep(10 * time.Minute)
			go func() {
				if err := <-done; !errors.Is(err, errReplaced) {
					t.Errorf("the old session ended with %v", err)
				}
			}()
		}
	})
}

func TestGuestThatServesOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := newCable(t)
		l := Listen(line.guest())
		defer l.Close()
		for range 3 {
			host := line.dial(t)
			guest, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			guest.Write([]byte("bye"))
			done := make(chan struct{})
			go func() { defer close(done); guest.Close() }()
			if got, err := io.ReadAll(host); err != nil || string(got) != "bye" {
				t.Fatalf("%q %v", got, err)
			}
			began := time.Now()
			if err := host.Close(); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the end took %v", took)
			}
			<-done
		}
	})
}

func TestGuestThatStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := newCable(t)
		host, _, l := line.session(t)
		l.Close()
		line.toHost.push([]byte("\r\nKernel panic - not syncing: Attempted to kill init!\r\n"))
		again := Listen(line.guest())
		defer again.Close()
		if _, err := host.Read(make([]byte, 1)); !errors.Is(err, errForgotten) {
			t.Errorf("the session ended with %v", err)
		}
		if said := string(host.Diagnose()); !strings.Contains(said, "Kernel panic") ||
			!strings.Contains(said, "[serial line] the guest no longer knows") {
			t.Errorf("evidence %q", said)
		}
	})
}

func TestGuestThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := newCable(t)
		host, _, l := line.session(t)
		l.Close()
		host.Write([]byte("anybody?"))
		if _, err := host.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "has not answered") {
			t.Errorf("the session ended with %v", err)
		}
		cut, _, _ := newCableSession(t)
		go func() { time.Sleep(time.Second); cut.p.rw.(*tap).in.close() }()
		if _, err := cut.Read(make([]byte, 1)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a cut line ended with %v", err)
		}
	})
}

func newCableSession(t *testing.T) (host, guest *Conn, l *Listener) { return newCable(t).session(t) }

func TestReaderThatIsSlowHoldsUpTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, guest, _ := newCableSession(t)
		data := random(7, 1<<20)
		written := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := 0; i < len(data); i += 1 << 10 {
				n, err := host.Write(data[i : i+1<<10])
				if written += n; err != nil {
					t.Error(err)
				}
			}
			host.CloseWrite()
		}()
		time.Sleep(time.Hour)
		if written > 2*buffered {
			t.Errorf("%d bytes were taken that nobody read", written)
		}
		got := make([]byte, 0, len(data))
		for {
			b := make([]byte, 999)
			n, err := guest.Read(b)
			if got = append(got, b[:n]...); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		<-done
		if !bytes.Equal(got, data) {
			t.Errorf("%d of %d bytes, or others", len(got), len(data))
		}
	})
}

func TestSpeedIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := newCable(t)
		line.toGuest.perByte, line.toHost.perByte = tenBits, tenBits/2
		host, _, _ := line.session(t)
		s := host.Speed()
		t.Logf("%+v", s)
		if s.ToGuest < 10e3 || s.ToGuest > 12e3 || s.FromGuest < 20e3 || s.FromGuest > 24e3 ||
			s.RoundTrip < 10*tenBits || s.RoundTrip > 40*tenBits {
			t.Errorf("%+v of a line with 11,520 and 23,040 bytes a second", s)
		}
	})
}

func TestNobodyIsThere(t *testing.T) {
	login := "\r\nDebian GNU/Linux 12 box ttyS0\r\n\r\nbox login: "
	garbage := make([]byte, 3000)
	for i := range garbage {
		garbage[i] = byte(0x80 + i%0x60)
	}
	for _, c := range []struct {
		name  string
		other func(l *cable)
		want  string
	}{
		{"silence", func(*cable) {}, "not a single byte came"},
		{"a login", func(l *cable) { l.toHost.push([]byte(login)) }, "no guest called; the last line: box login:"},
		{"a panic", func(l *cable) {
			l.toHost.push([]byte("[ 1.0] Kernel panic - not syncing: VFS\r\n[ 1.1] ---[ end\r\n"))
		}, "Kernel panic - not syncing: VFS"},
		{"a firmware", func(l *cable) {
			l.toHost.push([]byte("\x1b[2J\x1b[01;01HNo bootable \x1b[1m\x1b[33mdevice\x1b["))
		}, "the last line: No bootable device"},
		{"another baud rate", func(l *cable) { l.toHost.push(garbage) }, "same baud rate"},
		{"an echo", func(l *cable) { l.toGuest.copies = func(b []byte) { l.toHost.push(b) } }, "only an echo"},
		{"a deaf guest", func(l *cable) {
			l.toGuest.mangle = func([]byte) []byte { return nil }
			g := Listen(l.guest())
			time.AfterFunc(time.Hour, func() { g.Close() })
		}, "does not hear"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newCable(t)
				defer l.cut()
				c.other(l)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				end := l.host()
				conn, err := Dial(ctx, end)
				dead, ok := errors.AsType[*DeadError](err)
				if conn != nil || !ok || !errors.Is(err, context.DeadlineExceeded) ||
					!strings.Contains(err.Error(), c.want) || len(err.Error()) > 500 {
					t.Fatalf("%v", err)
				}
				t.Log(err)
				if !end.isClosed() {
					t.Error("the line stays open")
				}
				if c.name == "a login" && string(dead.Evidence()) != login {
					t.Errorf("evidence %q", dead.Evidence())
				}
			})
		})
	}
}

// TestOpeningPressesNoKeys: the first thing that a controller sends may reach a firmware or a boot loader.
func TestOpeningPressesNoKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCable(t)
		var sent []byte
		l.toGuest.copies = func(b []byte) { sent = append(sent, b...) }
		var noisy *time.Timer
		noisy = time.AfterFunc(time.Millisecond, func() {
			l.toHost.push([]byte("."))
			noisy.Reset(time.Second)
		})
		time.AfterFunc(30*time.Second, func() { noisy.Stop() })
		ctx, cancel := context.WithTimeout(t.Context(), 29*time.Second)
		defer cancel()
		Dial(ctx, l.host())
		if len(sent) > 0 {
			t.Errorf("%q was sent to a machine that prints", sent)
		}
		noisy.Stop()
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		Dial(ctx, l.host())
		if len(sent) == 0 || bytes.ContainsFunc(sent, func(r rune) bool { return r < ' ' }) {
			t.Errorf("%q was sent to a silent line", sent)
		}
	})
}

// TestGuestCallsAtOnceAfterItsController: a controller that leaves lets the guest know that it need not wait.
func TestGuestCallsAtOnceAfterItsController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, guest, l := newCableSession(t)
		go func() {
			io.ReadAll(guest)
			time.Sleep(time.Second) // what an agent has to tidy up
			guest.Close()
		}()
		if err := host.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Millisecond)
		l.p.mu.Lock()
		defer l.p.mu.Unlock()
		if l.p.cur != nil {
			t.Error("the guest still waits for the controller that has left")
		}
	})
}

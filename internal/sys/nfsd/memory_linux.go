package nfsd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// memory answers the kernel's questions about earlier clients, the job of nfsdcld. The kernel makes the pipe for them
// only when the server starts, for all versions, and waits a second for a reader.
type memory struct {
	pipes int // the folder, by a descriptor that any thread can use
	quit  chan struct{}
	all   sync.WaitGroup

	mu   sync.Mutex
	pipe *os.File
	over bool
}

// remember mounts the kernel's pipes at a folder of the calling thread's namespaces and answers the questions there.
func remember(dir string) (*memory, error) {
	if err := unix.Mount("pipes", dir, "rpc_pipefs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return nil, fmt.Errorf("mount the pipes of RPC at %s: %w", dir, err)
	}
	fd, err := unix.Open(filepath.Join(dir, "nfsd"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the pipes of RPC at %s: %w", dir, err)
	}
	m := &memory{pipes: fd, quit: make(chan struct{})}
	m.all.Add(1)
	go m.serve()
	return m, nil
}

// lookTime is the interval at which it looks for the pipe.
const lookTime = 10 * time.Millisecond

func (m *memory) serve() {
	defer m.all.Done()
	for {
		fd, err := unix.Openat(m.pipes, "cld", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil && m.take(os.NewFile(uintptr(fd), "cld")) {
			m.talk()
		}
		select {
		case <-m.quit:
			return
		case <-time.After(lookTime):
		}
	}
}

// take keeps the pipe for close, unless that was called.
func (m *memory) take(pipe *os.File) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		pipe.Close()
		return false
	}
	m.pipe = pipe
	return true
}

// talk answers messages until the pipe is removed.
func (m *memory) talk() {
	defer m.pipe.Close()
	conn, err := m.pipe.SyscallConn()
	if err != nil {
		return
	}
	message := make([]byte, maxMemory)
	for {
		n, failed := 0, error(nil)
		err := conn.Read(func(fd uintptr) bool {
			n, failed = unix.Read(int(fd), message)
			return n != 0 && !errors.Is(failed, unix.EAGAIN) // 0 is not the end here: it means that there is no message
		})
		if err != nil || failed != nil {
			return
		}
		reply := remembered(message[:n])
		if reply == nil {
			return
		}
		if _, err := m.pipe.Write(reply); err != nil {
			return
		}
	}
}

func (m *memory) close() {
	m.mu.Lock()
	m.over = true
	if m.pipe != nil {
		m.pipe.Close()
	}
	m.mu.Unlock()
	close(m.quit)
	m.all.Wait()
	unix.Close(m.pipes)
}

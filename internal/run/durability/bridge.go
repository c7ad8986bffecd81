package durability

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tare/internal/sys/proc"
)

// bridge shows a network block device as a file, by QEMU's storage daemon and FUSE.
//
// A machine must meet its disk as a file, because that is what it is to be judged with: QEMU passes flushes on to a
// network block device whatever its cache mode, unsafe included (its NBD client flushes with what it writes "to the
// system"; seen with 7.2), so that on such a disk no cache mode ignores them.
type bridge struct {
	path   string
	daemon *proc.Stream
	end    context.CancelFunc // SIGTERM, upon which the daemon takes the file away
}

const bridgeProgram = "qemu-storage-daemon"

func openBridge(ctx context.Context, dir, socket string) (*bridge, error) {
	program, err := proc.LookPath(bridgeProgram)
	if err != nil {
		return nil, fmt.Errorf("show disk as a file: %s is not installed; install it: apt-get install "+
			"qemu-system-common", bridgeProgram)
	}
	b := &bridge{path: filepath.Join(dir, "disk.img")}
	if err := os.WriteFile(b.path, nil, 0o600); err != nil {
		return nil, fmt.Errorf("show disk as a file: %w", err)
	}
	// Not bound by ctx, which is that of the boot; it dies with tare.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	b.end = end
	cmd := proc.Command(life, program,
		"--blockdev", "driver=nbd,node-name=disk,server.type=unix,server.path="+socket,
		"--export", "type=fuse,id=file,node-name=disk,writable=on,mountpoint="+b.path)
	proc.GentleDeath(cmd) // killed outright it would leave a dead mount behind
	b.daemon, err = proc.Start(cmd)
	if err != nil {
		end()
		return nil, fmt.Errorf("show disk as a file: %w", err)
	}
	for end := time.Now().Add(bridgeTime); ; time.Sleep(5 * time.Millisecond) {
		if st, err := os.Stat(b.path); err == nil && st.Size() > 0 {
			return b, nil
		}
		select {
		case <-b.daemon.Done():
			return nil, errors.Join(fmt.Errorf("show disk as a file, which needs FUSE (/dev/fuse): %s",
				proc.Printable(b.daemon.Diagnose())), b.close())
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), b.close())
		default:
		}
		if time.Now().After(end) {
			return nil, errors.Join(fmt.Errorf("show disk as a file: it was not there within %v; %s", bridgeTime,
				b.daemon.Diagnose()), b.close())
		}
	}
}

const bridgeTime = time.Minute

func (b *bridge) close() error {
	b.end()
	<-b.daemon.Done()
	return b.daemon.Close()
}

package serial

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/internal/measure/guestabi"
)

// virtio connects a virtio-serial port of that name to a Unix socket.
func virtio(path, name string) []string {
	return []string{"-device", "virtio-serial-pci", "-chardev", "socket,id=v,server=on,wait=off,path=" + path,
		"-device", "virtserialport,chardev=v,name=" + name}
}

// TestVirtioPort: a guest that has the port for the wire leaves its serial port to the console. The other one boots a
// medium for interpreted processors.
func TestVirtioPort(t *testing.T) {
	if testing.Short() {
		t.Skip("boots virtual machines")
	}
	t.Run("used", func(t *testing.T) {
		t.Parallel()
		path, console := filepath.Join(shared(t), "virtio"), filepath.Join(t.TempDir(), "console")
		start(t, nil, slices.Concat(asDisk(media(t, "qcow2"), "qcow2", "q35", "virtio-blk-pci"),
			withScratch(t, "virtio-blk-pci"), virtio(path, guestabi.Port), []string{"-serial", "file:" + console})...)
		await(t, "the socket", func() bool { return exists(path) })
		for range 3 { // one controller after another
			works(t, spec(path))
		}
		said, err := os.ReadFile(console)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(said), "waiting for a controller on virtio-serial port "+guestabi.Port) ||
			strings.ContainsRune(string(said), '~') { // of a frame
			t.Errorf("the console: %q", said)
		}
	})
	t.Run("of another", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(shared(t), "uart")
		start(t, nil, slices.Concat(asCD(media(t, interpreted)), virtio(path+"-agent", "org.qemu.guest_agent.0"),
			onSocket(path))...)
		await(t, "the socket", func() bool { return exists(path) })
		works(t, spec(path))
	})
}

package mount

import (
	"strings"
	"testing"

	"tare/internal/nfsd"
)

// kernelHere tells whether this machine's kernel can serve, by trying.
func kernelHere(t *testing.T) bool {
	t.Helper()
	room, err := nfsd.OpenRoom(nfsd.RoomOptions{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer room.Close()
	err = room.Serve(t.Context(), nfsd.Export{Client: "127.0.0.1", Version: "3", Port: nfsPort, MountPort: mountPort, Threads: 1})
	if err != nil {
		t.Log(err)
	}
	return err == nil
}

// The kernel of the machine serves where it has a server, and where it has none, that is said with what to do.
func TestKernelOfThisMachineServes(t *testing.T) {
	needRoot(t)
	here := kernelHere(t)
	for _, vers := range []string{"3", "4.2"} {
		r := request(t, "nfs", awkward, map[string]string{"server": serverKernel, "vers": vers, "threads": "3"})
		r.Link = 9
		if !here {
			x := failing(t, t.Context(), r)
			if !strings.Contains(x.Error(), "no NFS server") && !strings.Contains(x.Error(), "/dev/net/tun") {
				t.Errorf("it is refused because of %v", x)
			}
			if !strings.Contains(x.Remedy, "server=vm") || !strings.Contains(x.Remedy, "server=ganesha") {
				t.Errorf("the remedy is %s", x.Remedy)
			}
			continue
		}
		s := open(t, r)
		if s.Tap == nil || s.Order.Link == nil || s.Network || s.Mount.HostDir != r.Folder || !strings.HasPrefix(s.Mount.Server, "Linux ") {
			t.Errorf("it is %+v with %+v", s, s.Order)
		}
	}
}

func TestSettingsOfOtherServersAreRefused(t *testing.T) {
	for want, settings := range map[string]map[string]string{
		"server=vm":             {"disk": "128MiB"},
		"does not run over UDP": {"proto": "udp"},
		"over TCP":              {"proto": "udp", "vers": "3"},
		"NFS-Ganesha's":         {"commit": "always"},
		"no port":               {"port": "2049"},
	} {
		settings["server"] = serverKernel
		x := failing(t, t.Context(), request(t, "nfs", "f", settings))
		if !strings.Contains(x.Error(), want) {
			t.Errorf("%v: %v, want %q", settings, x, want)
		}
	}
}

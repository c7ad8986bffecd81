package mount

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/internal/measure/guestabi"
	"tare/internal/sys/proc"
)

// awkward is a folder name that every server here must support.
const awkward = "a b, c;d #e 'f' é"

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		lack(t, "needs root")
	}
}

// onHost changes the guest's order to one for this machine: the server's address and the paths of its files.
func onHost(t *testing.T, m *guestabi.Mount) []string {
	t.Helper()
	root := plainDir(t)
	here := strings.NewReplacer(guestabi.HostAddress, loopback, "/etc/tare/", root+"/etc/tare/", m.Dir, root+m.Dir)
	for _, f := range m.Files {
		name := filepath.Join(root, f.Path)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(here.Replace(string(f.Data))), os.FileMode(f.Mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(root+m.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	argv := slices.Clone(m.Command)
	for i := range argv {
		argv[i] = here.Replace(argv[i])
	}
	return argv
}

// checkSecrecy searches for the mount's secrets where other users of the machine, or readers of a report, could see
// them.
func checkSecrecy(t *testing.T, r Request, s *Served, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if len(secret) < 20 {
			t.Fatalf("secret %q is short", secret)
		}
		if found := naming(t, secret); len(found) > 0 {
			t.Errorf("the secret is in a command line: %q", found)
		}
		shown := fmt.Sprintf("%v %s %s %s %s", s.Mount, s.Diagnose(), s.Order.Options, s.Order.Source, s.Order.Command)
		if strings.Contains(shown, secret) {
			t.Errorf("the secret is shown: %s", shown)
		}
	}
	filepath.Walk(r.Dir, func(name string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 {
			return nil
		}
		b, err := os.ReadFile(name)
		for _, secret := range secrets {
			if err == nil && bytes.Contains(b, []byte(secret)) {
				t.Errorf("%s holds the secret and has mode %v", name, info.Mode())
			}
		}
		return nil
	})
}

// checkLoopback fails if a port answers on another address of this machine than 127.0.0.1.
func checkLoopback(t *testing.T, port int) {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range append(addresses, &net.IPNet{IP: net.IPv4(127, 0, 0, 2)}) {
		ip := a.(*net.IPNet).IP
		if ip.Equal(net.IPv4(127, 0, 0, 1)) || ip.IsLinkLocalUnicast() {
			continue
		}
		if c, err := net.Dial("tcp", net.JoinHostPort(ip.String(), fmt.Sprint(port))); err == nil {
			c.Close()
			t.Errorf("port %d answers on %v", port, ip)
		}
	}
}

// portOf finds the server's port in the guest's order.
func portOf(t *testing.T, s *Served) (port int) {
	t.Helper()
	text := strings.Join(append([]string{s.Order.Options}, s.Order.Command...), " ")
	for _, f := range s.Order.Files {
		if filepath.Base(f.Path) == "ssh_config" {
			text += string(f.Data)
		}
	}
	for _, key := range []string{"port=", guestabi.HostAddress + ":", "Port "} {
		if _, rest, ok := strings.Cut(text, key); ok {
			if n, _ := fmt.Sscan(strings.FieldsFunc(rest, func(r rune) bool { return r < '0' || r > '9' })[0],
				&port); n == 1 {
				return port
			}
		}
	}
	t.Fatalf("no port in %q", text)
	return 0
}

func TestRsyncFillsACopy(t *testing.T) {
	need(t, rsyncRemedy, "rsync")
	all := []map[string]string{{"compress": "on", "copy_links": "on", "checksum": "on", "whole_file": "on"}, nil}
	if testing.Short() {
		all = all[:1]
	}
	for _, settings := range all {
		r := request(t, "rsync", awkward, settings)
		s := open(t, r)
		write(t, filepath.Join(r.Folder, "new"), "content")
		argv := onHost(t, s.Order)
		copied := strings.TrimSuffix(argv[len(argv)-1], "/")
		write(t, filepath.Join(copied, "old"), "to be removed")
		if _, err := proc.Run(t.Context(), nil, argv...); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(copied, "new")); err != nil || string(b) != "content" {
			t.Errorf("%q, %v", b, err)
		}
		if _, err := os.Stat(filepath.Join(copied, "old")); err == nil {
			t.Error("what the host has not is still there")
		}
		secret := strings.TrimSpace(string(s.Order.Files[len(s.Order.Files)-1].Data))
		checkSecrecy(t, r, s, secret)
		checkLoopback(t, portOf(t, s))
		// Without the password there is no access, not even for a user of this machine.
		if out, err := proc.Run(t.Context(), strings.NewReader(""), "rsync", "--no-motd",
			fmt.Sprintf("rsync://%s:%d/share/", loopback, portOf(t, s))); err == nil {
			t.Errorf("the folder is open to everybody: %s", out)
		}
	}
}

func TestSSHFSServes(t *testing.T) {
	need(t, sshfsRemedy, "sshd", "ssh", "ssh-keygen", "sshfs", "sftp")
	r := request(t, "sshfs", awkward, map[string]string{"ciphers": "aes128-gcm@openssh.com", "compression": "on"})
	s := open(t, r)
	argv := onHost(t, s.Order)
	config := argv[slices.Index(argv, "-F")+1]
	local := filepath.Join(t.TempDir(), "file")
	write(t, local, "content")
	script := fmt.Sprintf("put %q %q\n", local, filepath.Join(r.Folder, "new"))
	if _, err := proc.Run(t.Context(), strings.NewReader(script), "sftp", "-F", config, "-b", "-", "tare"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(r.Folder, "new")); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
	if out, err := proc.Run(t.Context(), nil, "ssh", "-F", config, "tare", "id"); err == nil ||
		strings.Contains(string(out), "uid=") {
		t.Errorf("the key opens a shell: %q, %v", out, err)
	}
	if !strings.Contains(s.Mount.Server, "OpenSSH") || strings.Contains(s.Mount.Server, "without fsync") {
		t.Errorf("server %q", s.Mount.Server)
	}
	checkLoopback(t, portOf(t, s))
	if _, err := os.Stat("/dev/fuse"); err == nil && os.Geteuid() == 0 {
		mountHere(t, r, argv)
	}
}

// mountHere runs the guest's sshfs on this machine, and closes the server while it is mounted.
func mountHere(t *testing.T, r Request, argv []string) {
	t.Helper()
	dir := argv[len(argv)-1]
	d, err := launch(argv, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		proc.Run(context.Background(), nil, "umount", "-l", dir)
		d.close()
	}()
	err = d.await(t.Context(), func(context.Context) error {
		_, err := os.Stat(filepath.Join(dir, "new"))
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, d.diagnose())
	}
	write(t, filepath.Join(dir, "by the guest"), "content")
	if b, err := os.ReadFile(filepath.Join(r.Folder, "by the guest")); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestSSHSessionEndsWithServer holds a session open while the server is closed: by default sshd's sessions outlive it.
func TestSSHSessionEndsWithServer(t *testing.T) {
	need(t, sshfsRemedy, "sshd", "ssh", "ssh-keygen", "sshfs")
	r := request(t, "sshfs", "f", nil)
	s := open(t, r)
	argv := onHost(t, s.Order)
	c, err := proc.Start(proc.Command(t.Context(), "ssh", "-F", argv[slices.Index(argv, "-F")+1], "-s", "tare", "sftp"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte{0, 0, 0, 5, 1, 0, 0, 0, 3})
	if _, err := readSFTPVersion(c); err != nil {
		t.Fatal(err)
	}
	end(t, r, s)
	<-c.Done()
}

func TestSMBServes(t *testing.T) {
	need(t, smbRemedy, "smbd", "pdbedit")
	need(t, "apt-get install smbclient", "smbclient")
	r := request(t, "smb", awkward, map[string]string{"aio": "off", "sync_always": "on"})
	s := open(t, r)
	_, secret, _ := strings.Cut(s.Order.Secret, "password=")
	user, err := userName()
	if err != nil {
		t.Fatal(err)
	}
	auth := filepath.Join(t.TempDir(), "auth")
	write(t, auth, "username = "+user+"\npassword = "+secret+"\n")
	local := filepath.Join(t.TempDir(), "file")
	write(t, local, "content")
	client := func(auth string) ([]byte, error) {
		return proc.Run(t.Context(), strings.NewReader("put \""+local+"\" new\n"), "smbclient", "//"+loopback+"/share",
			"-p", fmt.Sprint(portOf(t, s)), "-A", auth, "-m", "SMB3_11")
	}
	if out, err := client(auth); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if b, err := os.ReadFile(filepath.Join(r.Folder, "new")); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
	write(t, auth, "username = "+user+"\npassword = wrong\n")
	if out, err := client(auth); err == nil {
		t.Errorf("a wrong password opens the folder: %s", out)
	}
	checkSecrecy(t, r, s, secret)
	checkLoopback(t, portOf(t, s))
}

func TestNFSServes(t *testing.T) {
	t.Setenv(markKey, t.TempDir())
	needRoot(t)
	need(t, nfsRemedy, "ganesha.nfsd", "rpcbind")
	for name, settings := range map[string]map[string]string{
		"v3 tcp": {"vers": "3"}, "v3 udp": {"vers": "3", "proto": "udp", "commit": "always"}, "v4.2": nil,
		"v4.0": {"vers": "4.0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, "nfs", awkward, settings)
			s := open(t, r) // open has asked the server for the folder
			port := portOf(t, s)
			checkLoopback(t, port)
			if _, err := callRPC(t.Context(), "tcp", port, programNFS, 2, 0, nil); err == nil {
				t.Error("a version that is not served answers")
			}
			if strings.Contains(s.Order.Refused, CodeNFSUDP) != (s.Mount.Settings["proto"] == "udp") {
				t.Errorf("refused: %q", s.Order.Refused)
			}
			if found := rpcbinds(t); len(found) != 1 {
				t.Errorf("the private rpcbind: %q", found)
			}
		})
	}
	if found := rpcbinds(t); len(found) > 0 {
		t.Errorf("left: %q", found)
	}
}

// TestFolderThatIsNotServed checks that NFS counts as ready when the folder is served, not when the port is open.
func TestFolderThatIsNotServed(t *testing.T) {
	needRoot(t)
	need(t, nfsRemedy, "ganesha.nfsd", "rpcbind")
	r := request(t, "nfs", "f", map[string]string{"vers": "3"})
	s := open(t, r)
	port := portOf(t, s)
	if _, err := callRPC(t.Context(), "tcp", port, programNFS, 3, 0, nil); err != nil {
		t.Error(err)
	}
	var mountPort int
	fmt.Sscanf(after(t, []string{s.Order.Options}, "mountport="), "%d", &mountPort)
	if answer, err := callRPC(t.Context(), "tcp", mountPort, programMount, 3, 1,
		xdrBytes(nil, "/elsewhere")); err != nil || status(answer) == nil {
		t.Errorf("a folder that is not there is served: %v %x", err, answer)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

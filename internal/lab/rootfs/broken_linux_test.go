package rootfs

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/sys/proc"
)

// repository serves a package of that name whose last step of the installation is a script, as an apt repository.
func repository(t *testing.T, name, postinst string) source {
	t.Helper()
	dir := t.TempDir()
	control := filepath.Join(dir, name, "DEBIAN")
	if err := os.MkdirAll(control, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"control": "Package: " + name + "\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\n" +
			"Description: a package of a test\n",
		"postinst": "#!/bin/sh\n" + postinst + "\n",
	} {
		if err := os.WriteFile(filepath.Join(control, file), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := proc.Run(t.Context(), nil, "dpkg-deb", "--root-owner-group", "--build", filepath.Join(dir, name),
		filepath.Join(dir, name+".deb")); err != nil {
		t.Fatal(err)
	}
	list := proc.Command(t.Context(), "sh", "-c", "sum=$(sha256sum $1.deb) && { dpkg-deb --field $1.deb && "+
		"echo Filename: ./$1.deb && echo Size: $(stat -c %s $1.deb) && echo SHA256: ${sum%% *}; } >Packages",
		"sh", name)
	list.Dir = dir
	if _, err := proc.RunCmd(list, nil); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.FileServer(http.Dir(dir))}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	t.Setenv("no_proxy", "127.0.0.1,"+os.Getenv("no_proxy"))
	return source{uri: "[trusted=yes] http://" + l.Addr().String(), release: "./"}
}

// TestPackageFails: a package whose installation fails halfway ends the build with the package's name and what its
// script said, and leaves nothing.
func TestPackageFails(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute or two")
	}
	if err := needed(); err != nil {
		missing(t, err.Error())
	}
	if _, err := sources(t.Context(), DefaultSuite); err != nil {
		missing(t, err.Error())
	}
	if _, err := proc.LookPath("mmdebstrap"); err != nil { // debootstrap takes one source only
		missing(t, err.Error())
	}
	cache := t.TempDir()
	_, err := Build(t.Context(), Options{Cache: cache, Packages: []string{"tare-of-wood"},
		more: []source{repository(t, "tare-of-wood", "echo the database is of wood >&2; exit 7")}})
	if err == nil || !strings.Contains(err.Error(), "tare-of-wood") ||
		!strings.Contains(err.Error(), "the database is of wood") ||
		!strings.Contains(err.Error(), "post-installation script subprocess returned error exit status 7") {
		t.Errorf("it ended with %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(cache, folder)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), cache) {
		t.Errorf("a file system is still mounted below %s, %v", cache, err)
	}
}

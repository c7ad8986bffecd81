package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/sys/proc"
)

func TestTellingErrors(t *testing.T) {
	// Output of mmdebstrap 1.5 for a package that does not exist.
	const said = "I: running apt-get update...\nI: installing remaining packages inside the chroot...\n" +
		"E: Unable to locate package nosuch\n" +
		"E: Unable to locate package nosuch2\nE: apt-get --yes install -oAPT::Status-Fd=<$fd> failed\n" +
		"I: main() received signal PIPE: waiting for setup...\nE: mmdebstrap failed to run\n"
	failed := &proc.ExitError{Argv: []string{"unshare"}, Code: 25, Stderr: said, Err: errors.New("exit status 25")}
	// That of a package whose script fails, and of one that depends on it.
	const broken = "I: installing remaining packages inside the chroot...\nSetting up tare-of-wood (1) ...\n" +
		"the database is of wood\ndpkg: error processing package tare-of-wood (--configure):\n" +
		" installed tare-of-wood package post-installation script subprocess returned error exit status 7\n" +
		"dpkg: dependency problems prevent configuration of x:\n x depends on tare-of-wood.\n\n" +
		"dpkg: error processing package x (--configure):\n dependency problems - leaving unconfigured\n" +
		"Errors were encountered while processing:\n tare-of-wood\n x\n" +
		"E: Sub-process env returned an error code (1)\nE: apt-get --yes install failed\n"
	halfway := &proc.ExitError{Argv: []string{"unshare"}, Code: 25, Stderr: broken, Err: errors.New("exit status 25")}
	refused := &proc.ExitError{Argv: []string{"unshare"}, Stderr: "no such mode", Err: errors.New("exit status 1")}
	for want, err := range map[string]error{
		"mmdebstrap: exit status 25: E: Unable to locate package nosuch; E: Unable to locate package nosuch2": failed,
		"mmdebstrap: exit status 25: dpkg: error processing package tare-of-wood (--configure): installed " +
			"tare-of-wood package post-installation script subprocess returned error exit status 7 (the database is " +
			"of wood); dpkg: error processing package x (--configure): dependency problems - leaving " +
			"unconfigured": halfway,
		"mmdebstrap: exit status 1: no such mode": refused,
		"canceled": errors.New("canceled"),
	} {
		if got := telling(err, "mmdebstrap"); got.Error() != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if telling(nil, "mmdebstrap") != nil {
		t.Error("an error out of nothing")
	}
}

// TestUnreachableMirror makes mmdebstrap itself fail: nothing listens at the mirror.
func TestUnreachableMirror(t *testing.T) {
	if testing.Short() {
		t.Skip("apt goes on trying for seconds")
	}
	if _, err := proc.LookPath("mmdebstrap"); err != nil {
		missing(t, "there is no mmdebstrap")
	}
	if os.Geteuid() != 0 {
		missing(t, "bootstrapping needs root")
	}
	err := mmdebstrap(t.Context(), Options{Suite: "trixie", Arch: "amd64"}, filepath.Join(t.TempDir(), "root"),
		[]source{{uri: "http://127.0.0.1:1/debian", release: "trixie", component: "main"}})
	if err == nil || !strings.HasPrefix(err.Error(), "mmdebstrap: ") ||
		!strings.Contains(err.Error(), "E: Failed to fetch http://127.0.0.1:1/") {
		t.Errorf("%v", err)
	}
}

package mount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tare/internal/lab/env"
)

// checkNFS says which settings do not fit the server that will be used, or the protocol.
func checkNFS(_, s env.Spec) error {
	given := func(name string) bool { _, ok := s.Settings[name]; return ok }
	is := func(name, fallback string) bool { return s.Get(name, fallback) == fallback }
	server, vers := s.Get("server", serverAuto), s.Get("vers", "4.2")
	if server == serverAuto && (given("threads") || given("async")) {
		server = serverKernel // chooseServer does the same on every machine
	}
	private := server == serverKernel || server == serverVM
	switch {
	case !is("proto", "tcp") && vers != version3:
		return fmt.Errorf("NFS %s does not run over UDP (RFC 7530, section 3.1); use vers=3 with server=ganesha, or "+
			"leave out proto", vers)
	case private && !is("proto", "tcp"):
		return errors.New("the kernel's nfsd serves only over TCP here; leave out proto, or use server=ganesha")
	case private && !is("commit", "client"):
		return errors.New("commit=always works only with NFS-Ganesha, because nfsd commits when the client asks for " +
			"it; leave it out, or use server=ganesha; to change when nfsd commits, use async=on")
	case private && !is("port", "auto"):
		return errors.New("the kernel's nfsd is on a private link and has no port on this machine; leave out port, " +
			"or use server=ganesha")
	case server != serverVM && given("disk"):
		return errors.New("disk= sets the second machine's disk; use server=vm with it, or leave it out")
	case server == serverGanesha && (given("threads") || given("async")):
		return errors.New("threads= and async= work only with the kernel's nfsd; use server=kernel or server=vm with " +
			"them, or leave them out")
	case s.Get("noac", "off") == "on" && !is("actimeo", "auto") && s.Get("actimeo", "") != "0":
		return fmt.Errorf("noac=on caches no attributes, but actimeo=%s caches them; leave out one of the two",
			s.Get("actimeo", ""))
	}
	return nil
}

// checkVirtiofs says which settings the daemon does not have. Which daemon auto means is known only after the search
// for it.
func checkVirtiofs(_, s env.Spec) error {
	daemon := s.Get("daemon", "auto")
	switch {
	case daemon == "c" && s.Get("sandbox", "namespace") == "none":
		return errors.New("the C virtiofsd has no sandbox=none; choose daemon=rust, or sandbox=chroot")
	case daemon == "rust" && s.Get("posix_lock", "off") == "on":
		return errors.New("the Rust virtiofsd has no posix_lock; choose daemon=c, or leave it out")
	case filepath.IsAbs(daemon):
		if info, err := os.Stat(daemon); err != nil {
			return fmt.Errorf("daemon: %w", err)
		} else if info.IsDir() {
			return fmt.Errorf("daemon: %s is a directory", daemon)
		}
	}
	return nil
}

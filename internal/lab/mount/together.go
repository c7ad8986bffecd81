package mount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tare/internal/lab/env"
)

// checkNFS says which settings are for another server than the one they come to, or for another protocol.
func checkNFS(_, s env.Spec) error {
	given := func(name string) bool { _, ok := s.Settings[name]; return ok }
	is := func(name, fallback string) bool { return s.Get(name, fallback) == fallback }
	server, vers := s.Get("server", serverAuto), s.Get("vers", "4.2")
	if server == serverAuto && (given("threads") || given("async")) {
		server = serverKernel // what chooseServer makes of it on every machine
	}
	private := server == serverKernel || server == serverVM
	switch {
	case !is("proto", "tcp") && vers != version3:
		return fmt.Errorf("NFS %s does not run over UDP (RFC 7530, section 3.1); use vers=3 with server=ganesha, or "+
			"leave out proto", vers)
	case private && !is("proto", "tcp"):
		return errors.New("the kernel's nfsd serves over TCP here; leave out proto, or use server=ganesha")
	case private && !is("commit", "client"):
		return errors.New("commit=always is NFS-Ganesha's, and nfsd commits when the client does; leave it out, or " +
			"use server=ganesha; async=on is the other way that nfsd has")
	case private && !is("port", "auto"):
		return errors.New("the kernel's nfsd is on a private link and has no port on this machine; leave out port, " +
			"or use server=ganesha")
	case server != serverVM && given("disk"):
		return errors.New("disk= is the size of the second machine's; use server=vm with it, or leave it out")
	case server == serverGanesha && (given("threads") || given("async")):
		return errors.New("threads= and async= are for the kernel's nfsd; use server=kernel or server=vm with them, " +
			"or leave them out")
	case s.Get("noac", "off") == "on" && !is("actimeo", "auto") && s.Get("actimeo", "") != "0":
		return fmt.Errorf("noac=on caches no attributes, and actimeo=%s caches them; leave out one of the two",
			s.Get("actimeo", ""))
	}
	return nil
}

// checkVirtiofs says which settings the daemon that is asked for does not have. Which one auto comes to is found out
// when it is looked for.
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

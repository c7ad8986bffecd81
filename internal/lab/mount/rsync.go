package mount

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

const rsyncRemedy = "install it: apt-get install rsync"

func kindRsync() kind {
	return kind{env.MountKind{
		Name: "rsync",
		Doc: "A copy in the guest, which rsync updates from the host, one way; fsync works on the copy and does " +
			"not reach the host.",
		Shared: true,
		Sync:   true,
		Probe:  probeProgram("rsync", rsyncRemedy, "--version"),
		Settings: []env.Setting{
			{Name: "dir", Default: guestabi.Scratch + "/" + placeholder,
				Doc: "The copy's directory in the guest, by default on the scratch disk: an absolute path of " +
					"letters, digits and ._-/.", Check: checkCopyDir},
			settingPort(),
			{Name: "compress", Default: "off", Doc: "on adds -z, as Vagrant does.", Check: onOff()},
			{Name: "copy_links", Default: "off",
				Doc: "on copies the targets of symbolic links (--copy-links), as Vagrant does.", Check: onOff()},
			{Name: "delete", Default: "on", Doc: "on removes files that the host no longer has.", Check: onOff()},
			{Name: "whole_file", Default: "off",
				Doc:   "on sends whole files, not only what changed (--whole-file).",
				Check: onOff()},
			{Name: "checksum", Default: "off",
				Doc: "on compares files by contents, not by size and time (--checksum).", Check: onOff()},
		},
	}, serveRsync}
}

// checkCopyDir is checkGuestDir, except that a copy may lie on the scratch disk.
func checkCopyDir(v string) error {
	if strings.HasPrefix(v, guestabi.Scratch+"/") {
		return checkGuestDir(guestabi.Mounts + strings.TrimPrefix(v, guestabi.Scratch))
	}
	return checkGuestDir(v)
}

// rsyncUser is the user of the module: a name that only rsync knows, not a user of the system.
const rsyncUser = "tare"

// rsyncConfig makes the daemon's configuration. A value ends with its line and cannot be quoted. rsync drops white
// space around it, and a backslash at its end joins it to the next line.
func rsyncConfig(folder, dir string, root bool) (string, error) {
	for _, p := range []string{folder, dir} {
		// A percent sign starts an environment variable.
		if err := plain(p, "%\\"); err != nil {
			return "", err
		}
	}
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%s = %s\n", name, value) }
	line("pid file", path.Join(dir, "pid"))
	line("lock file", path.Join(dir, "lock"))
	line("log file", path.Join(dir, "log"))
	// The daemon must not wait for a name server.
	line("reverse lookup", "no")
	line("use chroot", "no")
	line("munge symlinks", "no")
	if root {
		// As root, the daemon would become nobody, who may not read the folder.
		line("uid", "0")
		line("gid", "0")
	}
	b.WriteString("\n[share]\n")
	line("path", folder)
	line("read only", "yes")
	line("list", "no")
	line("hosts allow", loopback)
	line("auth users", rsyncUser)
	line("secrets file", path.Join(dir, "secrets"))
	line("strict modes", "yes")
	return b.String(), nil
}

// rsyncCommand copies from the daemon at a port of host into dir.
func (j *job) rsyncCommand(program, host string, port int, password, dir string) []string {
	// The agent's directory is not part of the copy and must survive --delete.
	a := []string{program, "--archive", "--filter=P /tare-*"}
	for _, o := range []struct{ setting, option string }{
		{"delete", "--delete"}, {"compress", "--compress"}, {"copy_links", "--copy-links"},
		{"whole_file", "--whole-file"}, {"checksum", "--checksum"},
	} {
		if j.on(o.setting) {
			a = append(a, o.option)
		}
	}
	return append(a, "--password-file="+password, "rsync://"+rsyncUser+"@"+host+":"+strconv.Itoa(port)+"/share/",
		dir+"/")
}

func serveRsync(ctx context.Context, j *job) (*Served, error) {
	j.op, j.remedy = "find rsync", rsyncRemedy
	program, version, err := programVersion(ctx, "rsync", "--version")
	if err != nil {
		return nil, err
	}
	j.op, j.remedy = "write rsync's configuration", moreRoom
	config, err := rsyncConfig(j.Folder, j.dir, isRoot())
	if err != nil {
		return nil, err
	}
	secret := newSecret()
	for name, text := range map[string]string{"rsyncd.conf": config, "secrets": rsyncUser + ":" + secret + "\n",
		"password": secret + "\n"} {
		if err := j.write(name, text); err != nil {
			return nil, err
		}
	}
	j.op, j.remedy = "start rsync", "see the daemon's log in the evidence"
	var argv []string
	d, ports, err := j.listen(ctx, 1, func(ports []int) (*daemon, func(context.Context) error, error) {
		argv = []string{program, "--daemon", "--no-detach", "--config=" + j.file("rsyncd.conf"),
			"--address=" + loopback, "--port=" + strconv.Itoa(ports[0])}
		d, err := launch(argv, j.file("log"), nil)
		return d, func(ctx context.Context) error {
			// Run the same client that the guest will run, with --list-only. It needs the password and the folder.
			a := []string{program, "--list-only", "--password-file=" + j.file("password"),
				"rsync://" + rsyncUser + "@" + loopback + ":" + strconv.Itoa(ports[0]) + "/share/"}
			_, err := proc.Run(ctx, nil, a...)
			return err
		}, err
	})
	if err != nil {
		return nil, err
	}
	dir := j.get("dir")
	password := "/etc/tare/" + j.Name + "/rsync.secret"
	return &Served{
		Mount: record.Mount{Server: "rsync " + version, Command: argv},
		Order: &guestabi.Mount{
			Dir: dir, Once: true, Command: j.rsyncCommand(program, guestabi.HostAddress, ports[0], password, dir),
			Files: append(guestUsers(), guestabi.File{Path: password, Mode: 0o600, Data: []byte(secret + "\n")}),
		},
		Programs: []string{program}, Network: true, Diagnose: d.diagnose, Pid: d.pid,
	}, nil
}

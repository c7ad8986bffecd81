package mount

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"strconv"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

const smbRemedy = "install it: apt-get install samba"

func kindSMB() kind {
	return kind{env.MountKind{
		Name: "smb",
		Doc: "Samba and the kernel's cifs client; fsync reaches the host's file system unless strict_sync is " +
			"off; a lease lets the guest cache a file, which hides changes made on the host.",
		Shared: true,
		Probe:  probeProgram("smbd", smbRemedy, "--version"),
		Settings: []env.Setting{
			settingDir(),
			settingPort(),
			{Name: "vers", Default: "3.1.1", Doc: "The protocol: 2.1, 3.0 or 3.1.1.",
				Check: env.OneOf("2.1", "3.0", "3.1.1"), Try: []string{"2.1", "3.1.1"}},
			{Name: "cache", Default: "strict", Doc: "What the guest caches: strict (as leases allow), loose or none.",
				Check: env.OneOf("strict", "loose", "none"), Try: []string{"strict", "loose", "none"}},
			{Name: "actimeo", Default: "1", Doc: "How long the guest caches attributes, seconds.",
				Check: number(0, 1<<30, "a time in whole seconds")},
			{Name: "strict_sync", Default: "on", Doc: "off makes Samba ignore fsync, its default before 4.7.",
				Check: onOff()},
			{Name: "sync_always", Default: "off", Doc: "on makes Samba flush after each write.", Check: onOff()},
			{Name: "aio", Default: "on", Doc: "off makes Samba serve reads and writes one after the other.",
				Check: onOff()},
			{Name: "mfsymlinks", Default: "on",
				Doc: "on lets the guest make symbolic links, stored as small files; off does not.", Check: onOff()},
			{Name: "rsize", Default: "auto", Doc: "Largest read, bytes; auto is what client and server agree on.",
				Check: autoSize(16384, 16<<20)},
			{Name: "wsize", Default: "auto", Doc: "Largest write, bytes; auto is what client and server agree on.",
				Check: autoSize(16384, 16<<20)},
		},
	}, serveSMB}
}

// autoSize accepts auto and sizes.
func autoSize(least, most int64) func(string) error {
	return func(v string) error {
		if v == "auto" {
			return nil
		}
		return sized(least, most)(v)
	}
}

// sizeOptions returns mount options such as "rsize=65536" for the settings that are sizes.
func (j *job) sizeOptions(names ...string) (options []string) {
	for _, name := range names {
		if n, err := parseSize(j.get(name)); err == nil {
			options = append(options, fmt.Sprintf("%s=%d", name, n))
		}
	}
	return options
}

// smbConfig makes smb.conf. A value ends with its line; a backslash at its end joins it to the next line, and a percent
// sign starts a variable.
func smbConfig(folder, dir, user string, port int, get func(string) string) (string, error) {
	for _, p := range []string{folder, dir} {
		if err := plain(p, `%\"`); err != nil {
			return "", err
		}
	}
	yes := func(name string) string { return map[bool]string{true: "yes", false: "no"}[get(name) == "on"] }
	aio := map[bool]string{true: "1", false: "0"}[get("aio") == "on"]
	var b strings.Builder
	section := func(name string, pairs ...string) {
		fmt.Fprintf(&b, "[%s]\n", name)
		for i := 0; i < len(pairs); i += 2 {
			fmt.Fprintf(&b, "%s = %s\n", pairs[i], pairs[i+1])
		}
	}
	section("global",
		"server role", "standalone server", "workgroup", "TARE", "netbios name", "TARE", "disable netbios", "yes",
		"interfaces", loopback, "bind interfaces only", "yes", "smb ports", strconv.Itoa(port),
		"private dir", path.Join(dir, "private"), "lock directory", path.Join(dir, "lock"), "state directory",
		path.Join(dir, "state"),
		"cache directory", path.Join(dir, "cache"), "pid directory", path.Join(dir, "pid"), "ncalrpc dir",
		path.Join(dir, "rpc"),
		"passdb backend", "tdbsam:"+path.Join(dir, "private", "passdb.tdb"),
		"log file", path.Join(dir, "log"), "max log size", "0", "logging", "file", "log level", "1",
		"map to guest", "never", "restrict anonymous", "2", "server min protocol", "SMB2_10", "usershare max shares",
		"0",
		"load printers", "no", "printing", "bsd", "printcap name", "/dev/null", "disable spoolss", "yes", "host msdfs",
		"no",
	)
	section("share",
		"path", folder, "read only", "no", "valid users", user,
		"strict sync", yes("strict_sync"), "sync always", yes("sync_always"), "aio read size", aio, "aio write size",
		aio,
		// Keep the guest's modes and names as they are: the folder is for developers, not a Windows drive.
		"create mask", "0777", "directory mask", "0777", "map archive", "no", "store dos attributes", "no",
		"case sensitive", "yes",
	)
	return b.String(), nil
}

func serveSMB(ctx context.Context, j *job) (*Served, error) {
	j.op, j.remedy = "find Samba", smbRemedy
	program, version, err := programVersion(ctx, "smbd", "--version")
	if err != nil {
		return nil, err
	}
	pdbedit, err := proc.LookPath("pdbedit")
	if err != nil {
		return nil, errors.New("pdbedit is not installed")
	}
	user, err := userName()
	if err != nil {
		return nil, err
	}
	j.op, j.remedy = "write Samba's configuration", moreRoom
	for _, dir := range []string{"private", "lock", "state", "cache", "pid", "rpc"} {
		if err := os.Mkdir(j.file(dir), 0o700); err != nil {
			return nil, err
		}
	}
	secret, known := newSecret(), false
	j.op, j.remedy = "start Samba", "see the server's log in the evidence"
	var argv []string
	d, ports, err := j.listen(ctx, 1, func(ports []int) (*daemon, func(context.Context) error, error) {
		config, err := smbConfig(j.Folder, j.dir, user, ports[0], j.get)
		if err == nil {
			err = j.write("smb.conf", config)
		}
		if err == nil && !known {
			// The password goes to standard input, because every user of the machine can read arguments.
			_, err = proc.Run(ctx, strings.NewReader(secret+"\n"+secret+"\n"), pdbedit, "-s", j.file("smb.conf"), "-a",
				"-u", user, "-t")
			known = err == nil
		}
		if err != nil {
			return nil, nil, err
		}
		argv = []string{program, "--foreground", "--no-process-group", "--configfile=" + j.file("smb.conf")}
		d, err := launch(argv, j.file("log"), nil)
		return d, func(ctx context.Context) error {
			return dial(ctx, ports[0], func(c net.Conn) error { return greetSMB(c) })
		}, err
	})
	if err != nil {
		return nil, err
	}
	share := `\\` + guestabi.HostAddress + `\share`
	options := []string{
		"unc=" + share, // before Linux 5.11 the mount's source alone is not enough
		"ip=" + guestabi.HostAddress, "port=" + strconv.Itoa(ports[0]), "vers=" + j.get("vers"), "sec=ntlmssp",
		"username=" + user,
		"cache=" + j.get("cache"), "actimeo=" + j.get("actimeo"), "uid=0", "gid=0", "file_mode=0755", "dir_mode=0755",
	}
	if j.on("mfsymlinks") {
		options = append(options, "mfsymlinks")
	}
	options = append(options, j.sizeOptions("rsize", "wsize")...)
	return &Served{
		Mount: record.Mount{Server: "Samba " + version, Command: argv},
		Order: &guestabi.Mount{Dir: j.get("dir"), Type: "cifs", Source: share, Options: strings.Join(options, ","),
			Secret: "password=" + secret},
		// The client asks for its ciphers by name when it connects. A guest has no program that loads modules on
		// demand.
		Modules: []string{"cifs"},
		Optional: []string{
			"md4", "md5", "hmac", "sha256_generic", "sha512_generic", "cmac", "ccm", "gcm", "ctr", "ecb", "cbc",
			"aes_generic", "ghash_generic",
			"arc4", "des_generic", "seqiv", "nls_utf8", "nls_ucs2_utils", "crc32_generic", "dns_resolver",
		},
		Network: true, Diagnose: d.diagnose, Life: d.life, Pid: d.pid,
	}, nil
}

// greetSMB offers SMB 2.1 (MS-SMB2 2.2.3, NEGOTIATE) and checks that the server accepts it.
func greetSMB(c io.ReadWriter) error {
	const header, fixed, dialect = 64, 36, 0x0210
	m := make([]byte, 4+header+fixed+2)
	binary.BigEndian.PutUint32(m, uint32(len(m)-4))
	h, body := m[4:], m[4+header:]
	copy(h, "\xfeSMB")
	binary.LittleEndian.PutUint16(h[4:], header)
	binary.LittleEndian.PutUint16(h[14:], 1) // credits asked for
	binary.LittleEndian.PutUint16(body, fixed)
	binary.LittleEndian.PutUint16(body[2:], 1) // one dialect
	binary.LittleEndian.PutUint16(body[4:], 1) // signing enabled
	binary.LittleEndian.PutUint16(body[fixed:], dialect)
	if _, err := c.Write(m); err != nil {
		return err
	}
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n < header+6 || n > 1<<20 {
		return fmt.Errorf("an answer of %d bytes is not SMB", n)
	}
	a := make([]byte, header+6)
	if _, err := io.ReadFull(c, a); err != nil {
		return err
	}
	status := binary.LittleEndian.Uint32(a[8:])
	if !bytes.HasPrefix(a, []byte("\xfeSMB")) || status != 0 || binary.LittleEndian.Uint16(a[header+4:]) != dialect {
		return fmt.Errorf("the server does not accept SMB 2.1 (status %#x)", status)
	}
	return nil
}

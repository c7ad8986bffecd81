package container

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/leftover"
	"tare/internal/sys/proc"
)

// Real output of the engines, shortened.
const (
	dockerInfo = `{"ServerVersion":"20.10.24+dfsg1","OSType":"linux","Architecture":"x86_64","KernelVersion":"6.1.0","OperatingSystem":"Debian GNU/Linux 12 (bookworm)",
"Driver":"overlay2","CgroupVersion":"1","CgroupDriver":"cgroupfs","DefaultRuntime":"runc","SecurityOptions":["name=apparmor","name=seccomp,profile=default"],"ClientInfo":{"Version":"28.2.2"}}`
	dockerDown = `{"ID":"","ServerVersion":"","SecurityOptions":null,"ServerErrors":["Cannot connect to the Docker daemon at unix:///var/run/docker.sock."],"ClientInfo":{"Version":"28.2.2"}}`
	podmanInfo = `{"host":{"arch":"arm64","os":"linux","kernel":"6.1.0","cgroupVersion":"v2","cgroupManager":"systemd","ociRuntime":{"name":"crun"},
"distribution":{"distribution":"debian","version":"12"},"security":{"rootless":true,"seccompEnabled":true,"apparmorEnabled":false}},"store":{"graphDriverName":"overlay"},"version":{"Version":"4.3.1"}}`
	dockerInspect = `[{"Id":"88fc","Name":"/tare-x","Created":"2026-11-21T01:44:44.552490315Z","Image":"sha256:e720","Driver":"overlay2","State":{"Status":"created","Running":false},
"Config":{"User":"","Image":"tare/empty:1","Entrypoint":["/tare-agent"],"Labels":{"tare.run":"X"}},
"HostConfig":{"NetworkMode":"default","Runtime":"runc","Memory":268435456,"MemorySwap":536870912,"NanoCpus":1500000000,"PidsLimit":null,"Ulimits":[]},
"Mounts":[{"Type":"volume","Destination":"/tare-work","Driver":"local","Mode":""}]}]`
	podmanInspect = `[{"Id":"4e5a","Name":"tare-x","Image":"f4dd","Driver":"overlay","OCIRuntime":"runc","State":{"Status":"created"},
"Config":{"Image":"localhost/tare/empty:1","Entrypoint":"/tare-agent","Labels":{"tare.run":"X"}},
"HostConfig":{"NetworkMode":"none","Runtime":"oci","Memory":268435456,"MemorySwap":536870912,"NanoCpus":0,"CpuQuota":150000,"CpuPeriod":100000,"PidsLimit":2048,
"Ulimits":[{"Name":"RLIMIT_NPROC","Soft":64,"Hard":64},{"Name":"RLIMIT_NOFILE","Soft":1024,"Hard":1024}],"SecurityOpt":[],"Tmpfs":{}},"Mounts":[]}]`
)

func TestInfo(t *testing.T) {
	a, err := parseInfo("docker", []byte(dockerInfo))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := a.String(),
		"docker 20.10.24+dfsg1 (client 28.2.2), storage overlay2, cgroup v1, runtime runc"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if a.Arch != "amd64" || a.Rootless {
		t.Errorf("arch %s, rootless %v", a.Arch, a.Rootless)
	}
	if a, err = parseInfo("podman", []byte(podmanInfo)); err != nil {
		t.Fatal(err)
	}
	if got, want := a.String(), "podman 4.3.1, storage overlay, cgroup v2, runtime crun"; got != want ||
		a.Arch != "arm64" || !a.Rootless {
		t.Errorf("got %q %s rootless %v, want %q", got, a.Arch, a.Rootless, want)
	}
	if _, err := parseInfo("docker", []byte(dockerDown)); err == nil ||
		!strings.Contains(err.Error(), "Cannot connect") {
		t.Errorf("a daemon that is down: %v", err)
	}
	for _, engine := range []string{"docker", "podman"} {
		for _, bad := range []string{"", "{}", "[]", "null", "Client:\n"} {
			if _, err := parseInfo(engine, []byte(bad)); err == nil {
				t.Errorf("%s: %q was taken for an answer", engine, bad)
			}
		}
	}
}

func TestFactsAreWhatTheEngineSays(t *testing.T) {
	for _, c := range []struct {
		engine, info, inspect string
		want                  map[string]string
	}{
		{"docker", dockerInfo, dockerInspect, map[string]string{
			"cpus": "1.5", "memory": "256MiB", "memory+swap": "512MiB", "network": "default", "runtime": "runc",
			"volume": "volume", "seccomp": "default", "privileged": "no", "ulimit": ""}},
		{"podman", podmanInfo, podmanInspect, map[string]string{
			"cpus": "1.5", "memory": "256MiB", "network": "none", "runtime": "runc", "volume": "none",
			"seccomp": "default", "pids": "2048", "ulimit": "nofile=1024:1024,nproc=64:64"}},
	} {
		a, err := parseInfo(c.engine, []byte(c.info))
		if err != nil {
			t.Fatal(err)
		}
		list, err := parseInspect([]byte(c.inspect))
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %d containers", err, len(list))
		}
		f := list[0].facts(a, image{ID: "i", OS: "linux", Arch: "amd64"}, workDir)
		for k, want := range c.want {
			if f.Settings[k] != want {
				t.Errorf("%s: %s is %q, want %q", c.engine, k, f.Settings[k], want)
			}
		}
		if want := a.Arch != "amd64"; f.Emulated != want {
			t.Errorf("%s: emulated is %v on %s", c.engine, f.Emulated, a.Arch)
		}
	}
}

func TestSeccomp(t *testing.T) {
	withProfile := engineInfo{Security: []string{"name=seccomp,profile=builtin"}}
	for _, c := range []struct {
		a          engineInfo
		opts       []string
		privileged bool
		want       string
	}{
		{withProfile, nil, false, "builtin"},
		{withProfile, []string{"seccomp=unconfined"}, false, "unconfined"},
		{withProfile, []string{`seccomp={"defaultAction":"x"}`}, false, "custom"},
		{withProfile, nil, true, "unconfined"},
		{engineInfo{}, nil, false, "unconfined"},
	} {
		var i containerInfo
		i.HostConfig.SecurityOpt, i.HostConfig.Privileged = c.opts, c.privileged
		if got := i.seccomp(c.a); got != c.want {
			t.Errorf("%v privileged=%v: %q, want %q", c.opts, c.privileged, got, c.want)
		}
	}
}

func TestImagePlatform(t *testing.T) {
	img, err := parseImage([]byte(`[{"Id":"sha256:1","Os":"linux","Architecture":"aarch64"}]`))
	if err != nil || img.Arch != "arm64" {
		t.Fatalf("%+v, %v", img, err)
	}
	for platform, want := range map[string]bool{"": true, "linux/arm64": true, "linux/arm64/v8": true,
		"linux/amd64": false, "linux": false} {
		if img.matches(platform) != want {
			t.Errorf("matches(%q) is not %v", platform, want)
		}
	}
	for _, bad := range []string{"", "[]", "{}", `[{"Id":"1"}]`,
		`[{"Os":"linux","Architecture":"x"},{"Os":"linux","Architecture":"x"}]`} {
		if _, err := parseImage([]byte(bad)); err == nil {
			t.Errorf("%q was taken for an image", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{dockerInfo, dockerDown, podmanInfo, dockerInspect, podmanInspect,
		`[{"Os":"linux","Architecture":"arm64"}]`, "null", "[null]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := parseInfo("docker", text)
		if err == nil && a.Server == "" {
			t.Error("docker info without a version")
		}
		if p, err := parseInfo("podman", text); err == nil && p.Server == "" {
			t.Error("podman info without a version")
		}
		img, err := parseImage(text)
		if err == nil && (img.OS == "" || img.Arch == "") {
			t.Error("an image without a platform")
		}
		list, err := parseInspect(text)
		if err != nil {
			return
		}
		for _, c := range list {
			facts := c.facts(a, img, workDir)
			if c.Id == "" || facts.Settings["privileged"] == "" {
				t.Error("facts of nothing")
			}
			c.abandoned(thisProcess(), time.Now())
		}
	})
}

func TestAbandoned(t *testing.T) {
	self := thisProcess()
	now := time.Now()
	live := containerInfo{Created: now}
	live.Config.Labels = map[string]string{}
	for _, l := range self.labels("r", "e") {
		k, v, _ := strings.Cut(l, "=")
		live.Config.Labels[k] = v
	}
	if live.abandoned(self, now) {
		t.Error("the container of this process is taken for a leftover")
	}
	with := func(c containerInfo, k, v string) containerInfo {
		labels := map[string]string{k: v}
		for k2, v2 := range c.Config.Labels {
			if k2 != k {
				labels[k2] = v2
			}
		}
		c.Config.Labels = labels
		return c
	}
	// This process got the same id again, but it has another start time.
	dead := with(live, labelStart, "another-boot/1")
	if !dead.abandoned(self, now) {
		t.Error("the container of a dead process is not found")
	}
	elsewhere := with(dead, labelMachine, "another machine")
	if elsewhere.abandoned(self, now) {
		t.Error("a process of another machine cannot be known to be dead")
	}
	elsewhere.Created = now.Add(-2 * abandonedAfter)
	if !elsewhere.abandoned(self, now) {
		t.Error("a container that never ran in two days is in use")
	}
	elsewhere.State.Running = true
	if elsewhere.abandoned(self, now) {
		t.Error("a running container of another machine is taken for a leftover")
	}
	for _, bad := range []string{"", "x", "-1", "1 2"} {
		if c := with(live, labelPID, bad); c.abandoned(self, now) {
			t.Errorf("a container of process %q is taken for a leftover", bad)
		}
	}
	if (leftover.Owner{PID: os.Getpid()}) == self.Owner {
		t.Log("this platform does not tell when a process began")
	}
}

func TestSettingsAreChecked(t *testing.T) {
	registry := env.NewRegistry(Infos()...)
	for text, want := range map[string]string{
		"docker":           "",
		"docker:debian:12": "",
		"podman:docker.io/library/debian?network=none":           "",
		"docker?cpus=1.5&memory=512MiB&cpuset=0-1,3":             "",
		"docker?ulimit=nofile=1024:1024,nproc=-1":                "",
		"docker?security=seccomp=unconfined,apparmor=unconfined": "",
		"docker?platform=linux/arm64/v8":                         "",
		"docker?dir=/data&volume=tmpfs":                          "",
		"docker?container=web&user=0&dir=/var/tmp":               "",
		"docker?cpus=0":               "0.01",
		"docker?cpus=1e3":             "CPUs",
		"docker?memory=1MiB":          "6 MiB",
		"docker?memory=lots":          "size",
		"docker?network=--privileged": "network",
		"docker?user=--privileged":    "USER",
		"docker?ulimit=nofile":        "NAME=SOFT",
		"docker?dir=work":             "absolute",
		"docker?dir=/a/../b":          "shortest",
		"docker?dir=/a:/b":            "colon",
		"docker?volume=tmp":           `did you mean "tmpfs"`,
		"docker?privileged=true":      "yes, no",
		"docker?pull=always":          "missing",
		"docker?cpu=1":                `did you mean "cpus"`,
		"docker:debian?container=web": "exclude",
		"docker?container=web&cpus=1": "does not apply",
		"docker:--privileged":         "option",
		"docker?container=-v":         "option",
	} {
		spec, err := env.ParseSpec(text)
		if err == nil {
			err = registry.Check(spec)
		}
		if err == nil {
			err = checkSpec(spec)
		}
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want something about %q", text, err, want)
		}
	}
}

func TestCreateOptions(t *testing.T) {
	spec, err := env.ParseSpec("docker?cpus=1.5&memory=64MiB&network=none&" +
		"ulimit=nofile=9:9,nproc=8&volume=tmpfs&dir=/w&privileged=yes&runtime=crun&weight=512&write_bps=/dev/vda:1MiB")
	if err != nil {
		t.Fatal(err)
	}
	got, err := createOptions(spec)
	if err != nil {
		t.Fatal(err)
	}
	want := "--cpus 1.5 --network none --runtime crun --memory 67108864 --cpu-shares 512 --device-write-bps " +
		"/dev/vda:1048576 --ulimit nofile=9:9 --ulimit nproc=8 " +
		"--privileged --tmpfs /w:rw,exec,mode=1777"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
}

func TestArchive(t *testing.T) {
	agent := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(agent, bytes.Repeat([]byte("agent"), 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	r := agentArchive(agent, "d/agent", folder{"d", dirMode})
	defer r.Close()
	var got []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, tr)
		if err != nil || n != h.Size || h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s: %d of %d bytes, owner %d:%d, %v", h.Name, n, h.Size, h.Uid, h.Gid, err)
		}
		got = append(got, h.Name+" "+os.FileMode(h.Mode).String())
	}
	if want := "d/ -rwxrwxrwx, d/agent -rwxr-xr-x"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, ", "), want)
	}
	missing := agentArchive(agent+"-missing", "agent")
	defer missing.Close()
	if _, err := io.Copy(io.Discard, missing); !os.IsNotExist(err) &&
		(err == nil || !strings.Contains(err.Error(), "no such file")) {
		t.Errorf("a missing agent: %v", err)
	}
}

// Real output of the engines in these situations, and a word that the remedy must contain.
func TestRemedies(t *testing.T) {
	for said, want := range map[string]string{
		"exec /tare-agent: no such file or directory":                                        "CGO_ENABLED=0",
		"exec /tare-agent: exec format error":                                                "platform=",
		"docker: Error response from daemon: pull access denied for nowhere, repository ...": "check its spelling",
		"something nobody has seen before":                                                   "",
	} {
		got := engine{name: "docker"}.remedy(&proc.ExitError{Argv: []string{"docker"}, Code: 1, Stderr: said})
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: remedy %q, want one with %q", said, got, want)
		}
	}
}

// A path that is not UTF-8 cannot be passed to an engine. Mounts that do not need it still work.
func TestFoldersThatAreNotUTF8AreOneMountsFault(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "caf\xe9")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skip(err) // a file system that allows only UTF-8
	}
	ms := &mounts{}
	ms.prepare(engine{name: "docker"}, &env.Options{Spec: env.Spec{Name: "box"}, Dir: dir,
		Mounts: []env.Spec{{Name: "b", Driver: bind}, {Name: "m", Driver: tmpfs}}})
	if err := ms.all[0].Err; err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("the folder: %v", err)
	}
	if ms.all[1].Err != nil || len(ms.options) != 2 {
		t.Errorf("the other mount: %v, options %q", ms.all[1].Err, ms.options)
	}
	if err := ms.close(); err != nil {
		t.Error(err)
	}
}

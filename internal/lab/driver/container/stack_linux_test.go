package container

import (
	"context"
	"strings"
	"testing"

	"tare/internal/lab/driver/container/dockertest"
	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
)

// TestStack serves a real site in Docker, of the image that is imported once.
func TestStack(t *testing.T) {
	if testing.Short() {
		t.Skip("a site has to be installed")
	}
	d := dockertest.Shared(t)
	st := envtest.Stack(t, envtest.SmallStack)
	e := newEngine("docker", d.Host)
	t.Cleanup(func() {
		// It has a gigabyte, in a daemon that other tests use later.
		if _, err := e.run(context.Background(), nil, "rmi", "--force", st.ImageName()); err != nil {
			t.Error(err)
		}
	})
	o := options(t, "docker", "", "host", d.Host, "network", "none", "stack", envtest.SmallStack+",opcache=off")
	o.Mounts = []env.Spec{{Name: "share", Driver: bind}, {Name: "kept", Driver: volume}}
	box := open(t, o)
	if got := box.Facts().Extra["stack.key"]; got != st.Key {
		t.Errorf("the facts name stack %q, want %q", got, st.Key)
	}
	s := connect(t, box, o.RunID)
	state := envtest.Site(t, s, "")
	if state["stack_key"] != st.Key || state["stack_opcache"] != "off" {
		t.Errorf("state %v", state)
	}
	// The code lies in the folder, and what PHP reads there is what is served.
	for _, name := range []string{"share", "kept"} {
		r, err := envtest.Load(t, s, mountPoint(name), "url", "stack:@front", "cookie", "user")
		if err != nil || !strings.HasPrefix(r.State["stack_code"], mountPoint(name)+"/") ||
			strings.HasPrefix(r.State["stack_home"], mountPoint(name)+"/") {
			t.Errorf("on %s: %v, state %v", name, err, r.State)
			continue
		}
		envtest.Shell(t, s, "test -e "+r.State["stack_code"]+"/LocalSettings.php && stat -c %m "+
			r.State["stack_code"]+" | grep -x "+mountPoint(name))
	}
	img, err := e.image(t.Context(), st.ImageName())
	if err != nil || img.OS != "linux" {
		t.Errorf("the image is not kept: %+v, %v", img, err)
	}
	o = options(t, "docker", "debian", "host", d.Host, "stack", envtest.SmallStack)
	if _, err := (driver{"docker"}).Open(t.Context(), o); err == nil ||
		!strings.Contains(err.Error(), "exclude each other") {
		t.Errorf("a stack and an image: %v", err)
	}
}

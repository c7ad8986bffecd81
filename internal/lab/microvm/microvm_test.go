package microvm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReleasesAreComparedByNumber(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"6.1.0-56-cloud-amd64", "6.1.0-56-cloud-amd64", 0},
		{"6.10.0-1", "6.9.0-1", 1},
		{"6.1.0-9-amd64", "6.1.0-10-amd64", -1},
		{"6.1", "6.1.1", -1},
		{"6.01", "6.1", 0},
		{"6.1.0-a", "6.1.0-b", -1},
	} {
		if got := compareReleases(c.a, c.b); got != c.want {
			t.Errorf("compare %s with %s: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := compareReleases(c.b, c.a); got != -c.want {
			t.Errorf("compare %s with %s: %d, want %d", c.b, c.a, got, -c.want)
		}
	}
}

// place installs a kernel like Fetch.
func place(t *testing.T, cache, arch, flavour, release string) string {
	t.Helper()
	dir := filepath.Join(cache, arch, flavour, "linux-"+release)
	mods := filepath.Join(dir, "modules", release)
	if err := os.MkdirAll(mods, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		filepath.Join(dir, "vmlinuz-"+release): "image",
		filepath.Join(mods, modulesDep):        "kernel/a.ko:\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k := Kernel{Arch: arch, Flavour: flavour, Release: release, Image: "vmlinuz-" + release,
		Modules: "modules/" + release}
	if err := writeManifest(dir, k); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFindPrefersWhatIsNewestAndAskedFor(t *testing.T) {
	cache := t.TempDir()
	place(t, cache, "arm64", Cloud, "6.9.0")
	place(t, cache, "arm64", Cloud, "6.10.0")
	place(t, cache, "arm64", Generic, "6.11.0")
	place(t, cache, "amd64", Cloud, "7.0.0")
	for which, want := range map[string]string{"": "6.10.0", Cloud: "6.10.0", Generic: "6.11.0", "6.9.0": "6.9.0"} {
		k, err := Find(cache, "arm64", which)
		if err != nil || k[0].Release != want {
			t.Errorf("find %q: %v %v, want %s", which, k, err, want)
		}
	}
	if _, err := Find(cache, "arm64", "6.10.1"); !errors.Is(err, ErrNoKernel) ||
		!strings.Contains(err.Error(), `did you mean "6.10.0"`) {
		t.Errorf("a mistyped release gives: %v", err)
	}
	if _, err := Find(t.TempDir(), "arm64", Generic); !errors.Is(err, ErrNoKernel) ||
		!strings.Contains(err.Error(), "flavour generic") {
		t.Errorf("an empty cache gives: %v", err)
	}
}

func TestKernelThatWasMeddledWithIsNone(t *testing.T) {
	for name, meddle := range map[string]func(dir string) error{
		"changed": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "vmlinuz-6.1"), []byte("other"),
				0o600)
		},
		"cut":     func(dir string) error { return os.Truncate(filepath.Join(dir, "vmlinuz-6.1"), 1) },
		"missing": func(dir string) error { return os.Remove(filepath.Join(dir, "modules", "6.1", modulesDep)) },
		"escape": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, manifestName), []byte(`{"image":"../../x","files":{}}`), 0o600)
		},
		"no json": func(dir string) error { return os.WriteFile(filepath.Join(dir, manifestName), []byte(`{`), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			cache := t.TempDir()
			dir := place(t, cache, "arm64", Cloud, "6.1")
			if k, err := Find(cache, "arm64", Cloud); err != nil || len(k) != 1 {
				t.Fatalf("before: %v %v", k, err)
			}
			if err := meddle(dir); err != nil {
				t.Fatal(err)
			}
			if k, err := Find(cache, "arm64", Cloud); !errors.Is(err, ErrNoKernel) {
				t.Errorf("found %v, %v", k, err)
			}
		})
	}
}

func TestKernelFromFileFindsItsModules(t *testing.T) {
	root := t.TempDir()
	image := filepath.Join(root, "boot", "vmlinuz-6.1.2")
	mods := filepath.Join(root, "lib", "modules", "6.1.2")
	for _, d := range []string{filepath.Dir(image), mods} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{image, filepath.Join(mods, modulesDep), filepath.Join(mods, "vmlinuz")} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{image, filepath.Join(mods, "vmlinuz")} {
		k, err := Find("", "amd64", path)
		if err != nil || k[0].Modules != mods || k[0].Release != "6.1.2" {
			t.Errorf("kernel of %s: %+v %v", path, k, err)
		}
	}
	if _, err := Find("", "amd64", filepath.Join(root, "nothing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing image gives: %v", err)
	}
	if _, err := Find("", "amd64", mods+"/"); err == nil {
		t.Error("a folder was taken for a kernel")
	}
}

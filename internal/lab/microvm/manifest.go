package microvm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

const (
	manifestName = "manifest.json"
	// manifestFormat is increased when more files of a package are kept, so that kernels fetched by older versions are
	// fetched again.
	manifestFormat = 4
)

// manifest describes a fetched kernel's folder. Paths are relative to it, with slashes.
type manifest struct {
	Kernel
	Format int               `json:"format"`
	Files  map[string]string `json:"files"` // SHA-256 of each file, hexadecimal
}

func hostArch() string { return runtime.GOARCH }

// writeManifest hashes all files below dir and writes the manifest. The paths in k are relative to dir.
func writeManifest(dir string, k Kernel) error {
	m := manifest{Kernel: k, Format: manifestFormat, Files: map[string]string{}}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		m.Files[filepath.ToSlash(rel)], err = hashFile(path)
		return err
	})
	if err != nil {
		return fmt.Errorf("hash kernel files: %w", err)
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestName), append(b, '\n'), 0o600)
}

// openManifest reads a fetched kernel and checks the hash of every file, so that a truncated or changed cache gives an
// error and not a kernel that fails while it boots.
func openManifest(dir string) (Kernel, error) {
	b, err := readBounded(filepath.Join(dir, manifestName), 4<<20)
	if err != nil {
		return Kernel{}, err
	}
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return Kernel{}, fmt.Errorf("read kernel manifest in %s: %w", dir, err)
	}
	if m.Format != manifestFormat {
		return Kernel{}, fmt.Errorf("read kernel manifest in %s: another version of tare fetched it; fetch the "+
			"kernel again", dir)
	}
	for name, want := range m.Files {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return Kernel{}, fmt.Errorf("read kernel manifest in %s: %q is outside the folder", dir, name)
		}
		got, err := hashFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return Kernel{}, err
		}
		if got != want {
			return Kernel{},
				fmt.Errorf("check kernel files in %s: %s was changed; remove the folder and fetch the kernel again",
					dir, name)
		}
	}
	k := m.Kernel
	for _, p := range []*string{&k.Image, &k.Config, &k.Modules} {
		if *p == "" {
			continue
		}
		if !filepath.IsLocal(*p) {
			return Kernel{}, fmt.Errorf("read kernel manifest in %s: %q is outside the folder", dir, *p)
		}
		*p = filepath.Join(dir, *p)
	}
	if k.Image == "" {
		return Kernel{}, errors.New("read kernel manifest in " + dir + ": it has no kernel image")
	}
	return k, nil
}

func hashFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// readBounded reads a file of at most max bytes.
func readBounded(name string, max int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(b)) > max {
		return nil, fmt.Errorf("read %s: it is larger than %d bytes", name, max)
	}
	return b, nil
}

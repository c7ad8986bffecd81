package rootfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const (
	folder       = "root" // below the guests' cache folder
	manifestName = "image.json"
	imageName    = "root.ext4"
	maxManifest  = 1 << 20
)

// manifest is the file that describes an image, next to it.
type manifest struct {
	Image
	Format int `json:"format"`
	// Modified is the image's modification time, in ns since 1970. While it and the size are unchanged, the hash is not
	// computed again.
	Modified int64 `json:"modified"`
}

// openImage reads an image's manifest and checks that the image was not changed after it was built.
func openImage(dir, key string) (Image, error) {
	f, err := os.Open(filepath.Join(dir, manifestName))
	if err != nil {
		return Image{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return Image{}, err
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return Image{}, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	if m.Format != format || m.Key != key {
		return Image{}, fmt.Errorf("%w: the image in %s was built by another version of tare", ErrNotBuilt, dir)
	}
	m.Path = filepath.Join(dir, imageName)
	st, err := os.Lstat(m.Path)
	if err != nil {
		return Image{}, err
	}
	if !st.Mode().IsRegular() || st.Size() != m.Size {
		return Image{}, fmt.Errorf("%w: %s is not the image of %d bytes that was built", ErrNotBuilt, m.Path, m.Size)
	}
	if st.ModTime().UnixNano() != m.Modified {
		if err := m.Verify(context.Background()); err != nil {
			return Image{}, err
		}
	}
	return m.Image, nil
}

// Verify reads the whole image and compares it with its hash. If the image was changed, the error wraps ErrNotBuilt.
func (i Image) Verify(ctx context.Context) error {
	got, err := hashFile(ctx, i.Path)
	if err != nil {
		return err
	}
	if got != i.SHA256 {
		return fmt.Errorf("%w: %s was changed after it was built", ErrNotBuilt, i.Path)
	}
	return nil
}

func hashFile(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	p := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := f.Read(p)
		h.Write(p[:n])
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// seal hashes a new image in dir, makes it read-only and writes its manifest, which completes it.
func seal(ctx context.Context, dir string, img Image) error {
	img.Path = filepath.Join(dir, imageName)
	var err error
	if img.SHA256, err = hashFile(ctx, img.Path); err != nil {
		return err
	}
	if err := os.Chmod(img.Path, 0o400); err != nil {
		return err
	}
	st, err := os.Stat(img.Path)
	if err != nil {
		return err
	}
	img.Built = time.Now().UTC().Truncate(time.Second)
	text, err := json.MarshalIndent(manifest{Image: img, Format: format, Modified: st.ModTime().UnixNano()}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestName), append(text, '\n'), 0o600)
}

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
	folder       = "root" // below the cache of guests
	manifestName = "image.json"
	imageName    = "root.ext4"
	maxManifest  = 1 << 20
)

// manifest is what lies beside an image.
type manifest struct {
	Image
	Format int `json:"format"`
	// Modified is the image's time of modification, in nanoseconds since 1970. As long as it and the size are the same
	// the hash is not computed again.
	Modified int64 `json:"modified"`
}

// openImage reads an image's manifest and checks that the image is as it was when it was built.
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
		return Image{}, fmt.Errorf("%w: %s is not the file of %d bytes that was built", ErrNotBuilt, m.Path, m.Size)
	}
	if st.ModTime().UnixNano() != m.Modified {
		if err := m.Verify(context.Background()); err != nil {
			return Image{}, err
		}
	}
	return m.Image, nil
}

// Verify reads the whole image and compares it with the hash it had when it was built. An image that was changed gives
// an error that wraps ErrNotBuilt.
func (i Image) Verify(ctx context.Context) error {
	got, err := hashFile(ctx, i.Path)
	if err != nil {
		return err
	}
	if got != i.SHA256 {
		return fmt.Errorf("%w: %s was written to since it was built", ErrNotBuilt, i.Path)
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

// seal hashes a new image in dir, takes the right to write from it and writes its manifest, which makes it an image.
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

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"time"
)

// imageOptions are what a container image is made of. The same options make the same bytes.
type imageOptions struct {
	Program, Licence []byte
	Arch, Version    string
	Created          time.Time
}

// descriptor names a blob of an image.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// writeImage writes an image with nothing but the program: an OCI image layout in a tar file, which also has the
// manifest of `docker save`, so that docker load, podman load and skopeo all take it.
//
// No daemon and no registry takes part: GoReleaser's own ways need one or the other, even for an image that begins with
// nothing.
func writeImage(w io.Writer, o imageOptions) error {
	layer, err := layerOf(o)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(layer); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	files := tar.NewWriter(w)
	put := func(name string, content []byte) error { return putFile(files, o.Created, name, 0o644, content) }
	var failed error
	blob := func(mediaType string, content []byte) descriptor {
		sum := sha256.Sum256(content)
		name := hex.EncodeToString(sum[:])
		if failed == nil {
			failed = put("blobs/sha256/"+name, content)
		}
		return descriptor{MediaType: mediaType, Digest: "sha256:" + name, Size: len(content)}
	}
	asJSON := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // these are strings, numbers and maps
		}
		return b
	}
	for _, dir := range []string{"blobs/", "blobs/sha256/"} {
		if err := putDir(files, o.Created, dir, 0o755); err != nil {
			return err
		}
	}
	content := blob("application/vnd.oci.image.layer.v1.tar+gzip", packed.Bytes())
	diff := sha256.Sum256(layer)
	config := blob("application/vnd.oci.image.config.v1+json", asJSON(map[string]any{
		"created": o.Created.Format(time.RFC3339), "architecture": o.Arch, "os": "linux",
		"config": map[string]any{
			"Entrypoint": []string{"/usr/bin/tare"}, "WorkingDir": "/work",
			"Env": []string{"PATH=/usr/bin", "HOME=/tmp"},
			"Labels": map[string]string{
				"org.opencontainers.image.title":    "tare",
				"org.opencontainers.image.version":  o.Version,
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(diff[:])}},
		"history": []any{map[string]any{"created": o.Created.Format(time.RFC3339), "created_by": "tare " + o.Version}},
	}))
	manifest := blob("application/vnd.oci.image.manifest.v1+json", asJSON(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": config, "layers": []descriptor{content},
	}))
	if failed != nil {
		return failed
	}
	manifest.Platform = &platform{Architecture: o.Arch, OS: "linux"}
	manifest.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": o.Version,
		"io.containerd.image.name":          "docker.io/library/tare:" + o.Version,
	}
	inTar := func(d descriptor) string { return "blobs/sha256/" + d.Digest[len("sha256:"):] }
	for _, f := range []struct {
		name string
		what any
	}{
		{"oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}},
		{"index.json", map[string]any{
			"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
			"manifests": []descriptor{manifest},
		}},
		{"manifest.json", []any{map[string]any{
			"Config": inTar(config), "RepoTags": []string{"tare:" + o.Version}, "Layers": []string{inTar(content)},
		}}},
	} {
		if err := put(f.name, asJSON(f.what)); err != nil {
			return err
		}
	}
	return files.Close()
}

// layerOf is the image's file system: the program, its licence, and two folders that anybody may write to.
func layerOf(o imageOptions) ([]byte, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for _, e := range []struct {
		name    string
		mode    int64
		content []byte
	}{
		{"tmp/", 0o1777, nil},
		{"usr/", 0o755, nil},
		{"usr/bin/", 0o755, nil},
		{"usr/bin/tare", 0o755, o.Program},
		{"usr/share/", 0o755, nil},
		{"usr/share/doc/", 0o755, nil},
		{"usr/share/doc/tare/", 0o755, nil},
		{"usr/share/doc/tare/LICENSE", 0o644, o.Licence},
		{"work/", 0o1777, nil},
	} {
		var err error
		if e.content == nil {
			err = putDir(t, o.Created, e.name, e.mode)
		} else {
			err = putFile(t, o.Created, e.name, e.mode, e.content)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func putDir(t *tar.Writer, at time.Time, name string, mode int64) error {
	return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, ModTime: at,
		Format: tar.FormatUSTAR})
}

func putFile(t *tar.Writer, at time.Time, name string, mode int64, content []byte) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: at,
		Format: tar.FormatUSTAR}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := t.Write(content)
	return err
}

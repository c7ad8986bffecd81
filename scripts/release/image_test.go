package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// unpacked returns the files of a tar file.
func unpacked(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if files[h.Name], err = io.ReadAll(tr); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestImage(t *testing.T) {
	o := imageOptions{Program: []byte("program"), Licence: []byte("licence"), Arch: "arm64", Version: "1.2.3",
		Created: time.Unix(1700000000, 0).UTC()}
	var b, again bytes.Buffer
	if err := errors.Join(writeImage(&b, o), writeImage(&again, o)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("the same options make other bytes")
	}
	files := unpacked(t, &b)
	get := func(digest string, v any) {
		t.Helper()
		content, ok := files["blobs/sha256/"+strings.TrimPrefix(digest, "sha256:")]
		if sum := sha256.Sum256(content); !ok || "sha256:"+hex.EncodeToString(sum[:]) != digest {
			t.Fatalf("%s is not there, or something else", digest)
		}
		if err := json.Unmarshal(content, v); err != nil {
			t.Fatal(err)
		}
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(files["index.json"], &index); err != nil || len(index.Manifests) != 1 ||
		index.Manifests[0].Platform.Architecture != "arm64" {
		t.Fatalf("index %s, %v", files["index.json"], err)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	get(index.Manifests[0].Digest, &manifest)
	var config struct {
		Architecture string
		RootFS       struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	get(manifest.Config.Digest, &config)
	packed := files["blobs/sha256/"+strings.TrimPrefix(manifest.Layers[0].Digest, "sha256:")]
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(layer); len(config.RootFS.DiffIDs) != 1 ||
		config.RootFS.DiffIDs[0] != "sha256:"+hex.EncodeToString(sum[:]) || config.Architecture != "arm64" ||
		manifest.Layers[0].Size != len(packed) {
		t.Errorf("the configuration does not fit the layer: %+v, %+v", config, manifest)
	}
	inside := unpacked(t, bytes.NewReader(layer))
	if string(inside["usr/bin/tare"]) != "program" || string(inside["usr/share/doc/tare/LICENSE"]) != "licence" {
		t.Errorf("the layer has %q", inside)
	}
	if !strings.Contains(string(files["manifest.json"]), `"RepoTags":["tare:1.2.3"]`) {
		t.Errorf("docker load is told %s", files["manifest.json"])
	}
}

func TestImageCommand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "image.tar")
	for _, bad := range [][]string{{}, {"-arch", "amd64"}, {"-arch", "amd64", "-version", "1", "-o", out},
		{"-arch", "amd64", "-version", "1", "-o", out, "nosuch"}, {"-nosuch"}} {
		if err := imageCommand(bad); err == nil {
			t.Errorf("image %q was made", bad)
		}
	}
	args := []string{"-arch", "amd64", "-version", "1.2.3", "-licence", filepath.Join(root, "LICENSE"), "-o", out,
		"main.go"}
	if err := imageCommand(append([]string{"-os", "windows"}, args...)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("an image of a program for Windows")
	}
	if err := imageCommand(args); err != nil {
		t.Fatal(err)
	}
	if i, err := os.Stat(out); err != nil || i.Size() == 0 {
		t.Errorf("%v, %v", i, err)
	}
}

package microvm

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"tare/internal/sys/proc"
)

// apkDownload downloads Alpine's kernel. It follows apk-tools(8) and apk(5). It has not been run on Alpine yet.
func apkDownload(ctx context.Context, arch, flavour, dir string) ([]string, string, error) {
	name := map[string]string{Cloud: "linux-virt", Generic: "linux-lts"}[flavour]
	cpu := map[string]string{"amd64": "x86_64", "arm64": "aarch64", "riscv64": "riscv64"}[arch]
	argv := []string{"apk", "fetch", "--output", dir}
	if arch != hostArch() {
		argv = append(argv, "--arch", cpu)
	}
	if _, err := proc.Run(ctx, nil, append(argv, name)...); err != nil {
		return nil, "", fmt.Errorf("download %s: %w", name, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, name+"-*.apk"))
	if err != nil {
		return nil, "", err
	}
	if len(files) != 1 {
		return nil, "", errors.New("download " + name + ": apk wrote no package")
	}
	return files, strings.TrimSuffix(filepath.Base(files[0]), ".apk"), nil
}

// openAPK returns the files of an .apk package as one tar stream. Signature, control and data are separate gzip
// streams; the tar archives in them have no end mark except the last, so together they are one archive.
func openAPK(r io.Reader) (*tar.Reader, error) {
	plain, err := unpacker(".gz", r)
	if err != nil {
		return nil, err
	}
	return tar.NewReader(io.LimitReader(plain, maxArchive)), nil
}

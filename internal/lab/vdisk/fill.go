package vdisk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/unit"
)

// FillName is the file that fills a disk, in the root of its file system.
const FillName = "tare.data"

// The contents of that file.
const (
	FillRandom = fileio.Random // incompressible, without repetition
	FillHalf   = "half"        // alternating sectors of random data and zeros; compresses to about a half
)

// FillKinds lists the contents of that file.
func FillKinds() []string { return []string{FillRandom, FillHalf} }

const (
	fillSeed  = 20261121
	fillPiece = 1 << 20 // bytes generated at a time, each piece from its own seed
	fillGrain = 512     // bytes; FillHalf alternates between random data and zeros in this unit
	minFill   = 4 << 10
)

// CheckFill returns an error for a wrong size of that file.
func CheckFill(v string) error {
	if n, err := unit.ParseSize(v); err != nil || n < minFill || n%minFill != 0 {
		return fmt.Errorf("%q is not a multiple of %s, such as 64MiB", v, unit.FormatSize(minFill))
	}
	return nil
}

// MaxFill is the largest such file for a disk of that size, in bytes. The rest is for the file system's tables and
// journal.
func MaxFill(size int64) int64 { return size / 4 * 3 }

// checkFill returns an error for wrong fill settings.
func (s *Shape) checkFill(fill, data string) error {
	switch {
	case fill == "" && data != "":
		return fmt.Errorf("%s=%s sets the contents of %s=, but there is no %s=; set its size, too", SettingFillData,
			data, SettingFill, SettingFill)
	case fill == "":
		return nil
	}
	if err := CheckFill(fill); err != nil {
		return fmt.Errorf("setting %s: %w", SettingFill, err)
	}
	s.FillBytes, _ = unit.ParseSize(fill)
	if s.FillData = data; data == "" {
		s.FillData = FillRandom
	}
	if s.FillData != FillRandom && s.FillData != FillHalf {
		return fmt.Errorf("%s=%s is not one of %s, %s", SettingFillData, data, FillRandom, FillHalf)
	}
	return nil
}

// Filled tells whether the disk gets such a file.
func (s *Shape) Filled() bool { return s.FillBytes > 0 }

// Fill makes a folder dir with only that file, for a program that makes a file system from a folder. The bytes are the
// same in every run. The facts are the size and the SHA-256 of the file.
func (s *Shape) Fill(ctx context.Context, dir string) (facts map[string]string, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, FillName)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum, piece := sha256.New(), make([]byte, fillPiece)
	for off := int64(0); off < s.FillBytes; off += fillPiece {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		part := piece[:min(fillPiece, s.FillBytes-off)]
		fileio.FillRandom(part, fillSeed+uint64(off/fillPiece))
		if s.FillData == FillHalf {
			halve(part)
		}
		sum.Write(part)
		if _, err := f.Write(part); err != nil {
			return nil, fmt.Errorf("write %s: %w", path, err)
		}
	}
	// Equal times, so that images of different formats have equal contents.
	if err := os.Chtimes(path, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
		return nil, err
	}
	return map[string]string{
		"fill": FillName, "fill_bytes": strconv.FormatInt(s.FillBytes, 10), "fill_data": s.FillData,
		"fill_sha256": hex.EncodeToString(sum.Sum(nil)),
	}, nil
}

// halve overwrites every second grain with zeros. Grains are shorter than the blocks of any file system: a block of
// zeros could become a hole in the file, which is never read from the disk.
func halve(p []byte) {
	for off := fillGrain; off < len(p); off += 2 * fillGrain {
		clear(p[off:min(off+fillGrain, len(p))])
	}
}

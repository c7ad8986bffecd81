package fileio

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// magics names the file systems of statfs(2). overlayfs and FUSE hide their underlying file systems.
var magics = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
	unix.TMPFS_MAGIC:           "tmpfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "nfs", unix.V9FS_MAGIC: "9p",
	unix.FUSE_SUPER_MAGIC: "fuse",
	unix.F2FS_SUPER_MAGIC: "f2fs", unix.SQUASHFS_MAGIC: "squashfs", unix.MSDOS_SUPER_MAGIC: "vfat",
	unix.EXFAT_SUPER_MAGIC: "exfat",
	unix.RAMFS_MAGIC:       "ramfs", unix.SMB2_SUPER_MAGIC: "smb", unix.CIFS_SUPER_MAGIC: "cifs",
	unix.ISOFS_SUPER_MAGIC: "iso9660",
	0x2fc12fc1:             "zfs", 0x786f4256: "vboxsf", 0xbacbacbc: "vmhgfs", 0x7366746e: "ntfs3",
	0xca451a4e: "bcachefs",
}

// StatVolume asks the file system of path.
func StatVolume(path string) (VolumeInfo, error) {
	var st unix.Statfs_t
	if err := Retry(func() error { return unix.Statfs(path, &st) }); err != nil {
		return VolumeInfo{}, err
	}
	name, known := magics[int64(uint32(st.Type))]
	if !known {
		name = fmt.Sprintf("file system %#x", uint32(st.Type))
	}
	unitBytes := st.Frsize
	if unitBytes == 0 {
		unitBytes = st.Bsize
	}
	v := VolumeInfo{FS: name, Free: int64(st.Bavail) * int64(unitBytes), Inodes: int64(st.Ffree)}
	if st.Blocks == 0 { // ramfs and some shared folders do not count space
		v.Free = -1
	}
	if st.Files == 0 { // btrfs and many shared folders do not count files
		v.Inodes = -1
	}
	return v, nil
}

// IsFull tells whether an error means that there is no space or quota left.
func IsFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// DirectAlignment returns the alignment that direct I/O needs here, in bytes; 0 if the kernel does not report it, as
// before Linux 6.1.
func DirectAlignment(path string) int64 {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_DIOALIGN, &st); err != nil ||
		st.Mask&unix.STATX_DIOALIGN == 0 {
		return 0
	}
	return int64(st.Dio_offset_align)
}

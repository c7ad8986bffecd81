package ledger

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// signature is how a file begins that is no log.
type signature struct{ magic, name string }

var signatures = []signature{
	{"\x1f\x8b", "compressed with gzip, within what was unpacked"},
	{"BZh", "compressed with bzip2, within what was unpacked"},
	{"\x28\xb5\x2f\xfd", "compressed with zstd, within what was unpacked"},
	{"\xfd7zXZ\x00", "compressed with xz, within what was unpacked"},
	{"\x04\x22\x4d\x18", "compressed with lz4, which is not read; unpack it"},
	{"\x89LZO\x00", "compressed with lzop, which is not read; unpack it"},
	{"LZIP\x01", "compressed with lzip, which is not read; unpack it"},
	{"PK\x03\x04", "a zip archive; unpack it and name the log in it"},
	{"PK\x05\x06", "an empty zip archive"},
	{"7z\xbc\xaf\x27\x1c", "a 7-Zip archive; unpack it and name the log in it"},
	{"Rar!\x1a\x07", "a RAR archive; unpack it and name the log in it"},
	{"!<arch>\n", "an ar archive; unpack it and name the log in it"},
	{"070701", "a cpio archive; unpack it and name the log in it"},
	{"070707", "a cpio archive; unpack it and name the log in it"},
	{"\xff\xfe\x00\x00", "in UTF-32; make UTF-8 of it: iconv -f UTF-32 -t UTF-8"},
	{"\x00\x00\xfe\xff", "in UTF-32; make UTF-8 of it: iconv -f UTF-32 -t UTF-8"},
	{"\xff\xfe", utf16Of("UTF-16")},
	{"\xfe\xff", utf16Of("UTF-16")},
	{"SQLite format 3\x00", "an SQLite database"},
	{"\xd4\xc3\xb2\xa1", "a capture of packets (pcap)"},
	{"\xa1\xb2\xc3\xd4", "a capture of packets (pcap)"},
	{"\x4d\x3c\xb2\xa1", "a capture of packets (pcap)"},
	{"\xa1\xb2\x3c\x4d", "a capture of packets (pcap)"},
	{"\x0a\x0d\x0d\x0a", "a capture of packets (pcapng)"},
	{"LPKSHHRH", "a journal of systemd; write it as text: journalctl --file FILE -o cat"},
	{"\xfebin", "a binary log of MySQL, which has changes and no questions"},
	{"PGDMP", "a dump of pg_dump in its own format"},
	{"\x7fELF", "a program (ELF)"},
	{"MZ", "a program for Windows"},
	{"%PDF-", "a PDF document"},
	{"\x89PNG\r\n\x1a\n", "a picture (PNG)"},
	{"\xff\xd8\xff", "a picture (JPEG)"},
	{"PAR1", "a Parquet file"},
}

func utf16Of(name string) string {
	return "in UTF-16; make UTF-8 of it: iconv -f " + name + " -t UTF-8"
}

// Foreign names the kind of a file that cannot be a log: an archive, text in UTF-16, a database. It goes by the first
// bytes, of which 512 tell an archive of tar. It returns "" for all else.
func Foreign(head []byte) string {
	for _, s := range signatures {
		if !bytes.HasPrefix(head, []byte(s.magic)) {
			continue
		}
		// Two letters may begin a text, too.
		if s.magic == "MZ" && !bytes.Contains(head, []byte{0}) || s.magic == "BZh" && printable(head) {
			continue
		}
		return s.name
	}
	switch {
	case isTar(head):
		return "a tar archive; unpack it and name the log in it: tar -xOf FILE NAME"
	case plainUTF16(head, 1):
		return utf16Of("UTF-16LE")
	case plainUTF16(head, 0):
		return utf16Of("UTF-16BE")
	}
	return ""
}

// isTar tells whether a header of tar begins a file: one of any of its formats has a sum over itself.
func isTar(head []byte) bool {
	const block, sumAt, sumLength = 512, 148, 8
	if len(head) < block || head[0] == 0 {
		return false
	}
	field := bytes.Trim(head[sumAt:sumAt+sumLength], " \x00")
	want, err := strconv.ParseInt(string(field), 8, 64)
	if err != nil {
		return false
	}
	sum := int64(sumLength * ' ')
	for i, c := range head[:block] {
		if i < sumAt || i >= sumAt+sumLength {
			sum += int64(c)
		}
	}
	return sum == want
}

// plainUTF16 tells whether a text is in UTF-16 without a mark that says so: each second byte from nul on is zero, and
// none of the others is.
func plainUTF16(head []byte, nul int) bool {
	head = head[:min(len(head), 256)]
	if len(head) < 8 {
		return false
	}
	zeros, pairs := 0, len(head)/2
	for i := range pairs {
		if head[2*i+1-nul] == 0 {
			return false
		}
		if head[2*i+nul] == 0 {
			zeros++
		}
	}
	// Words of other languages may stand in it.
	return zeros*10 >= pairs*7
}

func printable(b []byte) bool {
	for _, c := range b[:min(len(b), 64)] {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

// Unrecognised quotes the beginning of a file whose format was not found, for the sentence of an error: text in quotes,
// other bytes as escapes.
func Unrecognised(head []byte) string {
	const most = 60
	cut := head[:min(len(head), most)]
	// A letter of several bytes is not cut in two.
	for n := 1; len(cut) < len(head) && n <= utf8.UTFMax && n <= len(cut); n++ {
		if utf8.RuneStart(cut[len(cut)-n]) {
			if !utf8.FullRune(cut[len(cut)-n:]) {
				cut = cut[:len(cut)-n]
			}
			break
		}
	}
	return fmt.Sprintf("it begins with %q", cut)
}

// Mark is the mark that some programs write in front of a text in UTF-8.
const Mark = "\ufeff"

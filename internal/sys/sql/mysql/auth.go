package mysql

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// The authentication plugins.
const (
	nativePassword = "mysql_native_password"
	sha2Password   = "caching_sha2_password"
	sha256Password = "sha256_password" // like sha2Password, but without a cache
	ed25519Plugin  = "client_ed25519"
)

// maxAuth is the limit for a packet of a login, in bytes, and maxAuthSteps for the number of packets.
const (
	maxAuth      = 64 << 10
	maxAuthSteps = 16
)

// answer returns the proof of the password for the current plugin. If the plugin is unknown, the proof is for
// mysql_native_password, and the server then asks for the plugin of the account.
func (c *Conn) answer() ([]byte, error) {
	switch c.plugin {
	case sha2Password:
		return scrambleSHA2(c.nonce, c.config.Password), nil
	case ed25519Plugin:
		return signEd25519(c.nonce, c.config.Password), nil
	case sha256Password:
		if c.caps&canSSL != 0 || c.config.Password == "" { // for this plugin, a Unix socket is not private
			return append([]byte(c.config.Password), 0), nil
		}
		return []byte{askKeySHA256}, nil
	case nativePassword:
	default:
		c.plugin = nativePassword
	}
	return scrambleNative(c.nonce, c.config.Password), nil
}

// scrambleNative is SHA1(password) XOR SHA1(nonce SHA1(SHA1(password))).
func scrambleNative(nonce []byte, password string) []byte {
	if password == "" {
		return nil
	}
	once := sha1.Sum([]byte(password))
	twice := sha1.Sum(once[:])
	mixed := sha1.Sum(append(append([]byte(nil), nonce...), twice[:]...))
	subtle.XORBytes(mixed[:], mixed[:], once[:])
	return mixed[:]
}

// scrambleSHA2 is SHA256(password) XOR SHA256(SHA256(SHA256(password)) nonce).
func scrambleSHA2(nonce []byte, password string) []byte {
	if password == "" {
		return nil
	}
	once := sha256.Sum256([]byte(password))
	twice := sha256.Sum256(once[:])
	mixed := sha256.Sum256(append(twice[:], nonce...))
	subtle.XORBytes(mixed[:], mixed[:], once[:])
	return mixed[:]
}

// authenticate does the rest of a login, until the server accepts or refuses.
func (c *Conn) authenticate() error {
	for range maxAuthSteps {
		if err := c.begin(); err != nil {
			return err
		}
		p, err := c.whole(maxAuth)
		if err != nil {
			return err
		}
		if len(p) == 0 {
			return c.violation("an empty packet")
		}
		switch p[0] {
		case 0x00:
			_, err := c.parseOK(p)
			return err
		case 0xff:
			return fmt.Errorf("log in to the server as %s: %w", c.config.User, parseError(p))
		case 0xfe:
			err = c.change(p[1:])
		case 0x01:
			err = c.further(p[1:])
		default:
			return c.violation("a packet of type %#x during a login", p[0])
		}
		if err != nil {
			return err
		}
	}
	return c.violation("more than %d packets during a login", maxAuthSteps)
}

// change answers the server's request for another plugin.
func (c *Conn) change(p []byte) error {
	if len(p) == 0 {
		return c.fail("log in to the server", errors.New("the account's password has the form of versions "+
			"before MySQL 4.1, which is not supported; set a new password"))
	}
	name, nonce, _ := cut(p)
	if len(nonce) == nonceLength+1 { // with a zero byte at the end
		nonce = nonce[:nonceLength]
	}
	c.plugin, c.nonce = string(name), append(c.nonce[:0], nonce...)
	switch c.plugin {
	case sha2Password, sha256Password, nativePassword, ed25519Plugin:
	default:
		return c.fail("log in to the server", fmt.Errorf("the account uses the authentication plugin %.64q, which "+
			"is not supported; supported are %s, %s, %s and %s", c.plugin, sha2Password, sha256Password, nativePassword,
			ed25519Plugin))
	}
	answer, err := c.answer()
	if err != nil {
		return err
	}
	return c.reply(answer)
}

// reply sends a payload that is not a new command.
func (c *Conn) reply(p []byte) error {
	c.out = append(c.out[:0], 0, 0, 0, 0)
	return c.send(p)
}

// The messages of caching_sha2_password and sha256_password.
const (
	cached       = 3 // the proof was accepted
	wantsAll     = 4 // the password itself is needed
	askKey       = 2 // the client asks for the public key
	askKeySHA256 = 1
)

// further answers a further message of a plugin. If the server's cache does not contain the password, the server needs
// the password itself (MySQL Internals, "Caching SHA-2 Pluggable Authentication").
func (c *Conn) further(p []byte) error {
	password := append([]byte(c.config.Password), 0)
	switch {
	case c.plugin == sha256Password:
		return c.replySealed(p, password)
	case c.plugin != sha2Password || len(p) != 1 || p[0] != cached && p[0] != wantsAll:
		return c.violation("an unknown message of %d bytes during a login", len(p))
	case p[0] == cached:
		return nil
	case c.s.Private():
		return c.reply(password)
	}
	if err := c.reply([]byte{askKey}); err != nil {
		return err
	}
	if err := c.begin(); err != nil {
		return err
	}
	key, err := c.whole(maxAuth)
	if err != nil {
		return err
	}
	if len(key) == 0 || key[0] != 0x01 {
		return c.violation("no public key")
	}
	return c.replySealed(key[1:], password)
}

func (c *Conn) replySealed(key, password []byte) error {
	sealed, err := seal(key, c.nonce, password)
	if err != nil {
		return c.fail("log in to the server", err)
	}
	return c.reply(sealed)
}

// seal encrypts a password with the server's public key (RSA-OAEP with SHA-1). An attacker who can change the packets
// can replace the key; only TLS with a verified certificate protects against that.
func seal(key, nonce, password []byte) ([]byte, error) {
	public, err := parseKey(string(key))
	if err != nil {
		return nil, fmt.Errorf("read the server's key: %w", err)
	}
	if len(nonce) == 0 {
		return nil, errors.New("encrypt the password: the server sent no random bytes")
	}
	mixed := make([]byte, len(password))
	for i := range mixed {
		mixed[i] = password[i] ^ nonce[i%len(nonce)]
	}
	sealed, err := rsa.EncryptOAEP(sha1.New(), rand.Reader, public, mixed, nil)
	if err != nil {
		return nil, fmt.Errorf("encrypt the password: %w; use TLS or the server's socket", err)
	}
	return sealed, nil
}

// parseKey reads an RSA public key in PEM: a SubjectPublicKeyInfo (RFC 5280, 4.1; RFC 8017, A.1.1). Package x509 could
// read it, but is larger than this package.
func parseKey(text string) (*rsa.PublicKey, error) {
	const begin, end = "-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----"
	_, text, ok := strings.Cut(text, begin)
	if !ok {
		return nil, errors.New("it is not a public key in PEM")
	}
	text, _, _ = strings.Cut(text, end)
	der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return nil, err
	}
	const sequence, integer, bitString = 0x30, 0x02, 0x03
	rsaEncryption := "\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01"
	d := derReader{rest: der}
	info := derReader{rest: d.value(sequence)}
	algorithm := info.value(sequence)
	if !strings.HasPrefix(string(algorithm), rsaEncryption) {
		return nil, errors.New("it is not an RSA key")
	}
	bits := info.value(bitString)
	if len(bits) == 0 || bits[0] != 0 {
		return nil, errDER
	}
	d = derReader{rest: bits[1:]}
	numbers := derReader{rest: d.value(sequence)}
	n, e := numbers.value(integer), numbers.value(integer)
	if len(n) == 0 || len(e) == 0 || n[0] > 0x7f || e[0] > 0x7f {
		return nil, errDER
	}
	modulus, exponent := new(big.Int).SetBytes(n), new(big.Int).SetBytes(e)
	if bits := modulus.BitLen(); bits < 1024 || bits > 16384 || exponent.BitLen() > 31 || exponent.BitLen() < 2 {
		return nil, fmt.Errorf("the modulus has %d bits and the exponent %d", bits, exponent.BitLen())
	}
	return &rsa.PublicKey{N: modulus, E: int(exponent.Int64())}, nil
}

var errDER = errors.New("its encoding is invalid")

// derReader reads a sequence of DER values (X.690). After an invalid value it returns nil.
type derReader struct{ rest []byte }

func (d *derReader) value(tag byte) []byte {
	p := d.rest
	d.rest = nil
	if len(p) < 2 || p[0] != tag {
		return nil
	}
	n, at := int(p[1]), 2
	if n > 0x7f {
		length := n & 0x7f
		if length > 2 || len(p) < at+length {
			return nil
		}
		n = 0
		for _, b := range p[at : at+length] {
			n = n<<8 | int(b)
		}
		at += length
	}
	if len(p)-at < n {
		return nil
	}
	d.rest = p[at+n:]
	return p[at : at+n]
}

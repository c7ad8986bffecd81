package postgres

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The requests of a server for authentication (protocol, "AuthenticationOk" and its kin).
const (
	authOK        = 0
	authCleartext = 3
	authMD5       = 5
	authSASL      = 10
	authContinue  = 11
	authFinal     = 12
)

// login is the conversation by which the server learns who the client is, and the client that the server knows it.
type login struct {
	c     *Conn
	scram *scram
	done  bool
}

// step answers one request.
func (l *login) step(body []byte) error {
	if len(body) < 4 {
		return wrong("a request of %d bytes for authentication", len(body))
	}
	code, rest := binary.BigEndian.Uint32(body), body[4:]
	if code != authOK && code != authContinue && code != authFinal && l.c.config.Password == "" {
		return errors.New("the server asks for a password, and none was given")
	}
	switch code {
	case authOK:
		if l.scram != nil && !l.scram.proved {
			return errors.New("the server did not prove that it knows the password")
		}
		l.done = true
		return nil
	case authCleartext:
		if !l.c.s.Private() {
			return errors.New("the server asks for the password in clear text over a connection that is not " +
				"encrypted; use TLS, or set the server to scram-sha-256")
		}
		return l.say(l.c.config.Password)
	case authMD5:
		if len(rest) != 4 {
			return wrong("a salt of %d bytes", len(rest))
		}
		return l.say("md5" + sumMD5(sumMD5(l.c.config.Password+l.c.config.User)+string(rest)))
	case authSASL:
		return l.begin(rest)
	case authContinue:
		if l.scram == nil {
			return wrong("it goes on with a login that did not begin")
		}
		last, err := l.scram.proof(string(rest))
		if err != nil {
			return err
		}
		at := l.c.begin('p')
		l.c.out = append(l.c.out, last...)
		l.c.end(at)
		return l.c.flush()
	case authFinal:
		if l.scram == nil {
			return wrong("it ends a login that did not begin")
		}
		return l.scram.check(string(rest))
	}
	return fmt.Errorf("the server requests an unknown authentication method (number %d); known are trust, password, "+
		"md5 and scram-sha-256", code)
}

// wrongPassword is the SQLSTATE for a password that is not the user's.
const wrongPassword = "28P01"

// explain adds to an error of the server's what may be the reason for it.
func (l *login) explain(err error) error {
	e, ok := errors.AsType[*Error](err)
	if ok && e.Code == wrongPassword && l.scram != nil && !l.scram.plain() {
		e.Message += "; the password has characters beyond ASCII, and those of which Unicode has several forms are " +
			"not prepared as SASLprep wants it: if it is right, use one in ASCII"
	}
	return err
}

func sumMD5(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// say sends a password.
func (l *login) say(password string) error {
	at := l.c.begin('p')
	l.c.out = l.c.text(l.c.out, password)
	l.c.end(at)
	return l.c.flush()
}

// mechanism is the one of SASL that is spoken here. Binding it to the TLS connection is not.
const mechanism = "SCRAM-SHA-256"

func (l *login) begin(offered []byte) error {
	if l.scram != nil {
		return wrong("it begins a login twice")
	}
	for name := range bytes.SplitSeq(offered, []byte{0}) {
		if string(name) == mechanism {
			l.scram = newScram(l.c.config.Password, rand.Text())
			first := l.scram.first()
			at := l.c.begin('p')
			l.c.out = l.c.text(l.c.out, mechanism)
			l.c.out = binary.BigEndian.AppendUint32(l.c.out, uint32(len(first)))
			l.c.out = append(l.c.out, first...)
			l.c.end(at)
			return l.c.flush()
		}
	}
	return fmt.Errorf("the server offers the ways of authentication %q, and %s is not among them",
		strings.Trim(string(offered), "\x00"), mechanism)
}

// maxIterations bounds what a server may have the client compute: some seconds. PostgreSQL asks for 4096.
const maxIterations = 4 << 20

// scram is the client's side of SCRAM-SHA-256 without channel binding (RFC 5802, RFC 7677). The password is taken as it
// is: of SASLprep (RFC 4013) nothing is done, which makes a difference only for some letters beyond ASCII.
type scram struct {
	password, nonce string
	bare            string // the first message without its header
	server          []byte // what the server must sign with
	proved          bool
}

// noBinding is the header that says that the client binds nothing, "n,,", in base64.
const noBinding = "biws"

func newScram(password, nonce string) *scram {
	// The user's name is that of the introduction; the one here is ignored.
	return &scram{password: password, nonce: nonce, bare: "n=,r=" + nonce}
}

// plain tells whether the password is the same in all forms.
func (s *scram) plain() bool {
	return strings.IndexFunc(s.password, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

func (s *scram) first() string { return "n,," + s.bare }

// proof answers the server's challenge.
func (s *scram) proof(challenge string) (string, error) {
	nonce, salt64, count, err := parseChallenge(challenge)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(nonce, s.nonce) || len(nonce) == len(s.nonce) {
		return "", errors.New("the server answers another client's login")
	}
	salt, err := base64.StdEncoding.DecodeString(salt64)
	if err != nil || len(salt) == 0 {
		return "", wrong("a salt that is none")
	}
	iterations, err := strconv.Atoi(count)
	if err != nil || iterations < 1 || iterations > maxIterations {
		return "", fmt.Errorf("the server asks for %.20q SCRAM iterations, and at most %d are supported", count,
			maxIterations)
	}
	salted, err := pbkdf2.Key(sha256.New, s.password, salt, iterations, sha256.Size)
	if err != nil {
		return "", err
	}
	final := "c=" + noBinding + ",r=" + nonce
	message := s.bare + "," + challenge + "," + final
	key := sign(salted, "Client Key")
	stored := sha256.Sum256(key)
	proof := sign(stored[:], message)
	for i := range proof {
		proof[i] ^= key[i]
	}
	s.server = sign(sign(salted, "Server Key"), message)
	return final + ",p=" + base64.StdEncoding.EncodeToString(proof), nil
}

// parseChallenge reads "r=NONCE,s=SALT,i=COUNT", which extensions may follow. One that is mandatory ("m=") is not
// known.
func parseChallenge(text string) (nonce, salt, count string, err error) {
	fields := strings.Split(text, ",")
	for i, key := range []string{"r=", "s=", "i="} {
		if i >= len(fields) || !strings.HasPrefix(fields[i], key) {
			return "", "", "", wrong("a challenge that is none")
		}
	}
	return fields[0][2:], fields[1][2:], fields[2][2:], nil
}

// check sees whether the server knows the password, too.
func (s *scram) check(final string) error {
	if why, ok := strings.CutPrefix(final, "e="); ok {
		return fmt.Errorf("the server refuses the login: %.100q", why)
	}
	text, ok := strings.CutPrefix(final, "v=")
	text, _, _ = strings.Cut(text, ",")
	signature, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || s.server == nil || !hmac.Equal(signature, s.server) {
		return errors.New("the server did not prove that it knows the password")
	}
	s.proved = true
	return nil
}

func sign(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

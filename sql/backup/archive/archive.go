package archive

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/godwitdb/godwit/base"
)

// Version of the format. History:
//
//	1: first
//	2: rows of regions in places of their own; only such manifests and segments have it
//	3: streams that have changes only ([Stream.Changes]); only manifests and parts with such have it
const Version = 3

// The versions of what is written.
const (
	plain    = 1
	regional = 2
	changing = 3
)

// What a file begins with, before the version.
const (
	manifestMagic = "GWBMANI"
	pieceMagic    = "GWBDATA"
	partMagic     = "GWBPART"
	segmentMagic  = "GWBSEGM"
	magicLen      = 8 // with the version
)

// FileError says what is wrong with a file of a backup.
type FileError struct {
	File string // the name, from the folder of backups on
	Why  string
}

// Error implements error.
func (e *FileError) Error() string { return fmt.Sprintf("backup file %s: %s", e.File, e.Why) }

func bad(file, format string, args ...any) error {
	return &FileError{file, fmt.Sprintf(format, args...)}
}

// IDs look like 20261123-210415.123456-0f3a.
const idLayout = "20060102-150405.000000"

// NewID is the id of a new backup of a moment. Ids order as the moments do.
func NewID(ts base.Timestamp) string {
	var r [2]byte
	rand.Read(r[:]) // it never fails
	return ts.Time().Format(idLayout) + "-" + hex.EncodeToString(r[:])
}

// LastID is not below any id of a moment, and below those of later ones.
func LastID(ts base.Timestamp) string { return ts.Time().Format(idLayout) + "-g" }

// IsID reports whether a folder's name is the id of a backup.
func IsID(name string) bool {
	if len(name) != len(idLayout)+5 || name[len(idLayout)] != '-' {
		return false
	}
	if _, err := hex.DecodeString(name[len(idLayout)+1:]); err != nil {
		return false
	}
	_, err := time.Parse(idLayout, name[:len(idLayout)])
	return err == nil
}

// Key is what files are sealed with; nil: they are not sealed. Safe for concurrent use.
type Key struct {
	master []byte
	salt   [saltSize]byte
}

const (
	saltSize = 16
	// rounds of PBKDF2: what OWASP asks for in 2023. They are part of the version.
	rounds = 600_000
)

// Keyring makes keys from a passphrase, and remembers them: making one takes a while, by intention.
// Safe for concurrent use.
type Keyring struct {
	passphrase string
	mu         sync.Mutex
	keys       map[[saltSize]byte]*Key
}

// NewKeyring is the keyring of a passphrase; nil if there is none.
func NewKeyring(passphrase string) *Keyring {
	if passphrase == "" {
		return nil
	}
	return &Keyring{passphrase: passphrase, keys: map[[saltSize]byte]*Key{}}
}

// New makes a key with a salt of its own; nil if there is no passphrase.
func (k *Keyring) New() (*Key, error) {
	if k == nil {
		return nil, nil
	}
	var salt [saltSize]byte
	rand.Read(salt[:])
	return k.at(salt)
}

// Secret is a key as a job keeps it, which has to go on without the passphrase.
type Secret struct {
	Salt   []byte `json:"salt"`
	Master []byte `json:"master"`
}

// Secret is the key as a job keeps it.
func (k *Key) Secret() Secret { return Secret{bytes.Clone(k.salt[:]), bytes.Clone(k.master)} }

// Secrets are the keys that the keyring has made so far.
func (k *Keyring) Secrets() (out []Secret) {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.keys {
		out = append(out, key.Secret())
	}
	return out
}

// KeyringOf is a keyring that has these keys only; nil if there are none.
func KeyringOf(secrets []Secret) *Keyring {
	if len(secrets) == 0 {
		return nil
	}
	k := &Keyring{keys: map[[saltSize]byte]*Key{}}
	for _, s := range secrets {
		if len(s.Salt) == saltSize {
			salt := [saltSize]byte(s.Salt)
			k.keys[salt] = &Key{s.Master, salt}
		}
	}
	return k
}

// Any is one of the keys of a keyring that has one only; nil if there is none.
func (k *Keyring) Any() *Key {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.keys {
		return key
	}
	return nil
}

// at is the key of a salt; nil if the keyring has neither it nor a passphrase.
func (k *Keyring) at(salt [saltSize]byte) (*Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key := k.keys[salt]; key != nil || k.passphrase == "" {
		return key, nil
	}
	master, err := pbkdf2.Key(sha256.New, k.passphrase, salt[:], rounds, sha256.Size)
	if err != nil {
		return nil, err
	}
	key := &Key{master, salt}
	k.keys[salt] = key
	return key, nil
}

// aead is the cipher of one file.
func (k *Key) aead(file string) (cipher.AEAD, error) {
	own, err := hkdf.Key(sha256.New, k.master, k.salt[:], "godwit backup "+file, 32)
	if err != nil {
		return nil, err
	}
	b, err := aes.NewCipher(own)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(b)
}

const nonceSize = 12

// seal appends the sealed form of a text to what the file begins with, which is authenticated as
// well. Without a key it appends the text.
func (k *Key) seal(file string, head, text []byte) ([]byte, error) {
	if k == nil {
		return append(head, text...), nil
	}
	c, err := k.aead(file)
	if err != nil {
		return nil, err
	}
	var nonce [nonceSize]byte
	rand.Read(nonce[:])
	head = append(head, nonce[:]...)
	return c.Seal(head, nonce[:], text, head), nil
}

// open undoes seal; b is the file, and its first n bytes are the head.
func (k *Key) open(file string, b []byte, n int) ([]byte, error) {
	if k == nil {
		return b[n:], nil
	}
	if len(b) < n+nonceSize {
		return nil, bad(file, "it is cut off")
	}
	c, err := k.aead(file)
	if err != nil {
		return nil, err
	}
	text, err := c.Open(nil, b[n:n+nonceSize], b[n+nonceSize:], b[:n+nonceSize])
	if err != nil {
		return nil, bad(file, "it cannot be decrypted: the passphrase is another one, or the file was changed")
	}
	return text, nil
}

var (
	encoders = sync.Pool{New: func() any {
		// A single segment says how large it is, which decompress relies on.
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return e
	}}
	decoders = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mostManifest))
		if err != nil {
			panic(err)
		}
		return d
	}}
)

func compress(b []byte) []byte {
	e := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(e)
	return e.EncodeAll(b, nil)
}

// decompress refuses what would be larger than most, before it is.
func decompress(file string, b []byte, most int64) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(b); err != nil {
		return nil, bad(file, "it is not compressed as it should be: %v", err)
	}
	if !h.HasFCS || h.FrameContentSize > uint64(most) {
		return nil, bad(file, "it says that it has %d bytes, more than %d", h.FrameContentSize, most)
	}
	d := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(d)
	out, err := d.DecodeAll(b, make([]byte, 0, h.FrameContentSize))
	if err != nil {
		return nil, bad(file, "it cannot be decompressed: %v", err)
	}
	if int64(len(out)) > most {
		return nil, bad(file, "it has more than %d bytes", most)
	}
	return out, nil
}

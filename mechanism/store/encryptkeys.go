package store

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
)

// A store key, which an operator keeps in a file elsewhere, encrypts the file keysFile in the
// store. That one holds the data keys, which encrypt the other files. So the store key can be
// replaced without rewriting the data, and a new data key is used for new files every newDataKey.

// keysFile holds the data keys, encrypted by the store key.
const keysFile = "KEYS"

// newDataKey is after how long, at a start, files get a new data key.
const newDataKey = 30 * 24 * time.Hour

// EncryptionKey is a store key.
type EncryptionKey []byte

// ReadKey reads a store key from a file: 32, 48 or 64 hexadecimal digits, for AES with 128, 192 or
// 256 bits. Others must not be able to read it.
func ReadKey(path string) (EncryptionKey, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("the encryption key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, base.Errorf(base.CodeInvalid, "others can read the encryption key %s: chmod 600", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the encryption key: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != 16 && len(key) != 24 && len(key) != 32 {
		return nil, base.Errorf(base.CodeInvalid, "%s is no encryption key: it must have 32, 48 or 64 hexadecimal digits "+
			"(`openssl rand -hex 32`)", path)
	}
	return key, nil
}

// id names a store key, and tells nothing of it.
func (k EncryptionKey) id() string {
	sum := sha256.Sum256(append([]byte("godwit store key\x00"), k...))
	return hex.EncodeToString(sum[:8])
}

// dataKey encrypts files.
type dataKey struct {
	ID   uint32    `json:"id"`
	Key  []byte    `json:"key"`
	Made time.Time `json:"made"`
}

// sealedKeys is the content of keysFile.
type sealedKeys struct {
	Format   int    `json:"format"`
	StoreKey string `json:"store_key"` // the id of the key that encrypts Keys
	Nonce    []byte `json:"nonce"`
	Keys     []byte `json:"keys"` // AES-GCM of a list of dataKey in JSON
}

const keysFormat = 1

func (k EncryptionKey) gcm() (cipher.AEAD, error) {
	b, err := aes.NewCipher(k)
	if err != nil {
		return nil, base.Errorf(base.CodeInvalid, "the encryption key: %v", err)
	}
	return cipher.NewGCM(b)
}

func (k EncryptionKey) seal(keys []dataKey) ([]byte, error) {
	plain, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	g, err := k.gcm()
	if err != nil {
		return nil, err
	}
	s := sealedKeys{Format: keysFormat, StoreKey: k.id(), Nonce: make([]byte, g.NonceSize())}
	rand.Read(s.Nonce) // it never fails
	s.Keys = g.Seal(nil, s.Nonce, plain, []byte(s.StoreKey))
	return json.Marshal(s)
}

// unseal reads keysFile with the store key, or with the one of before; replaced says which.
func unseal(dir string, data []byte, key, old EncryptionKey) (keys []dataKey, replaced bool, err error) {
	damaged := corruptf("store %s: the file %s, which holds the data keys, is damaged: nothing can be read without it; "+
		"replace the node by a new one with an empty --store", dir, keysFile)
	var s sealedKeys
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, false, damaged
	}
	if s.Format != keysFormat {
		return nil, false, base.Errorf(base.CodeInvalid, "store %s: the file %s has format %d, this program knows %d", dir,
			keysFile, s.Format, keysFormat)
	}
	// Base64 and the names of fields have bits that mean nothing: they are damage, too.
	if again, err := json.Marshal(s); err != nil || !bytes.Equal(again, data) {
		return nil, false, damaged
	}
	use := key
	if s.StoreKey != key.id() {
		if replaced = old != nil && s.StoreKey == old.id(); !replaced {
			return nil, false, base.Errorf(base.CodeInvalid, "store %s is encrypted with the key %s, and the one given is %s: "+
				"name the right file with --encryption-key, or with --encryption-old-key if the key is to be replaced", dir,
				s.StoreKey, key.id())
		}
		use = old
	}
	g, err := use.gcm()
	if err != nil {
		return nil, false, err
	}
	if len(s.Nonce) != g.NonceSize() {
		return nil, false, damaged
	}
	plain, err := g.Open(nil, s.Nonce, s.Keys, []byte(s.StoreKey))
	if err != nil || json.Unmarshal(plain, &keys) != nil || len(keys) == 0 {
		return nil, false, damaged
	}
	return keys, replaced, nil
}

// openKeys reads the data keys of a store, or makes the first one. The newest is the last.
func openKeys(fsys vfs.FS, dir string, key, old EncryptionKey, now time.Time) ([]dataKey, error) {
	path := fsys.PathJoin(dir, keysFile)
	data, err := readAll(fsys, path)
	var keys []dataKey
	changed := false
	switch {
	case err == nil:
		if keys, changed, err = unseal(dir, data, key, old); err != nil {
			return nil, err
		}
	case errors.Is(err, fs.ErrNotExist):
		name, err := encryptedFile(fsys, dir)
		if err != nil {
			return nil, err
		}
		if name != "" {
			return nil, corruptf("store %s: the file %s, which holds the data keys, is missing, and %s is encrypted: nothing can "+
				"be read without it; replace the node by a new one with an empty --store", dir, keysFile, name)
		}
	default:
		return nil, corruptf("store %s: the file %s cannot be read: %v", dir, keysFile, err)
	}
	if len(keys) == 0 || now.Sub(keys[len(keys)-1].Made) > newDataKey {
		next := dataKey{ID: 1, Key: make([]byte, len(key)), Made: now.UTC()}
		if len(keys) > 0 {
			next.ID = keys[len(keys)-1].ID + 1
		}
		rand.Read(next.Key)
		keys, changed = append(keys, next), true
	}
	if !changed {
		return keys, nil
	}
	sealed, err := key.seal(keys)
	if err != nil {
		return nil, err
	}
	if err := replaceFile(fsys, dir, keysFile, sealed); err != nil {
		return nil, fmt.Errorf("store %s: write %s: %w", dir, keysFile, err)
	}
	return keys, nil
}

// replaceFile writes a file so that a crash leaves the old one or the new one.
func replaceFile(fsys vfs.FS, dir, name string, data []byte) error {
	if err := fsys.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp := fsys.PathJoin(dir, name+".tmp")
	f, err := fsys.Create(tmp, "godwit-keys")
	if err != nil {
		return err
	}
	_, err = f.Write(bytes.Clone(data))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, fsys.PathJoin(dir, name)); err != nil {
		return err
	}
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// encryptedFile names a file of a store that is encrypted; empty if none is.
func encryptedFile(fsys vfs.FS, dir string) (string, error) {
	ls, err := fsys.List(dir)
	if err != nil {
		return "", nil // there is no store yet
	}
	for _, name := range ls {
		path := fsys.PathJoin(dir, name)
		if info, err := fsys.Stat(path); err != nil || info.IsDir() {
			continue
		}
		h, err := headerOf(fsys, path)
		if err != nil {
			return "", err
		}
		if h != nil {
			return name, nil
		}
	}
	return "", nil
}

// checkPlain refuses to open an encrypted store without its key.
func checkPlain(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(fsys.PathJoin(dir, keysFile)); err != nil {
		return nil // Pebble reports what else may be wrong
	}
	return base.Errorf(base.CodeInvalid, "store %s is encrypted: name the file with its key (--encryption-key)", dir)
}

// Package crypt has the ciphers of AES_ENCRYPT and AES_DECRYPT: MySQL's modes of
// block_encryption_mode, how it makes a key of any text, and its derivations of keys.
package crypt

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/pbkdf2"
	"crypto/sha512"
	"crypto/subtle"
	"slices"
	"strconv"
	"strings"
)

// Mode is a value of block_encryption_mode.
type Mode struct {
	bits int    // of the key
	name string // ecb, cbc, cfb1, cfb8, cfb128 or ofb
}

// Default is MySQL's.
const Default = "aes-128-ecb"

// Modes are all values of block_encryption_mode.
func Modes() (all []string) {
	for _, bits := range []string{"128", "192", "256"} {
		for _, name := range []string{"ecb", "cbc", "cfb1", "cfb8", "cfb128", "ofb"} {
			all = append(all, "aes-"+bits+"-"+name)
		}
	}
	return all
}

// ParseMode reads a value of block_encryption_mode.
func ParseMode(s string) (m Mode, ok bool) {
	s = strings.ToLower(s)
	p := strings.Split(s, "-")
	if !slices.Contains(Modes(), s) {
		return Mode{}, false
	}
	m.bits, _ = strconv.Atoi(p[1])
	m.name = p[2]
	return m, true
}

// NeedsIV reports whether the mode begins with an initialization vector.
func (m Mode) NeedsIV() bool { return m.name != "ecb" }

// IVBytes is how long an initialization vector is; what a longer one has more is ignored.
const IVBytes = aes.BlockSize

// KeyBytes is how long a key is.
func (m Mode) KeyBytes() int { return m.bits / 8 }

// Fold makes a key of a text: MySQL lays its parts over each other.
func (m Mode) Fold(text string) []byte {
	key := make([]byte, m.KeyBytes())
	for i := range len(text) {
		key[i%len(key)] ^= text[i]
	}
	return key
}

// HKDF derives a key by HKDF with SHA-512.
func (m Mode) HKDF(text, salt, info string) ([]byte, error) {
	return hkdf.Key(sha512.New, []byte(text), []byte(salt), info, m.KeyBytes())
}

// PBKDF2 derives a key by PBKDF2 with HMAC of SHA-512.
func (m Mode) PBKDF2(text, salt string, iterations int) ([]byte, error) {
	return pbkdf2.Key(sha512.New, text, []byte(salt), iterations, m.KeyBytes())
}

// Size is how long the encrypted form of n bytes is.
func (m Mode) Size(n int) int {
	if m.padded() {
		return n/aes.BlockSize*aes.BlockSize + aes.BlockSize
	}
	return n
}

func (m Mode) padded() bool { return m.name == "ecb" || m.name == "cbc" }

// Encrypt encrypts a text. iv has IVBytes, or is not looked at.
func (m Mode) Encrypt(text string, key, iv []byte) ([]byte, error) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	out := []byte(text)
	if m.padded() {
		n := m.Size(len(out)) - len(out)
		out = append(out, slices.Repeat([]byte{byte(n)}, n)...)
	}
	switch m.name {
	case "ecb":
		for at := 0; at < len(out); at += aes.BlockSize {
			b.Encrypt(out[at:], out[at:])
		}
	case "cbc":
		cipher.NewCBCEncrypter(b, iv).CryptBlocks(out, out)
	default:
		m.stream(b, out, iv, true)
	}
	return out, nil
}

// Decrypt decrypts what Encrypt has made; ok is false of what it cannot have made with this key.
func (m Mode) Decrypt(text string, key, iv []byte) (_ []byte, ok bool) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, false
	}
	out := []byte(text)
	if !m.padded() {
		m.stream(b, out, iv, false)
		return out, true
	}
	if len(out) == 0 || len(out)%aes.BlockSize != 0 {
		return nil, false
	}
	if m.name == "cbc" {
		cipher.NewCBCDecrypter(b, iv).CryptBlocks(out, out)
	} else {
		for at := 0; at < len(out); at += aes.BlockSize {
			b.Decrypt(out[at:], out[at:])
		}
	}
	n := int(out[len(out)-1])
	if n == 0 || n > aes.BlockSize {
		return nil, false
	}
	end := len(out) - n
	if subtle.ConstantTimeCompare(out[end:], slices.Repeat([]byte{byte(n)}, n)) == 0 {
		return nil, false
	}
	return out[:end], true
}

// stream is cipher feedback of 1, 8 or 128 bits, or output feedback, in place. (The standard
// library has neither of the short feedbacks, and calls the others insecure: they authenticate
// nothing. Nor do they here; they are MySQL's.)
func (m Mode) stream(b cipher.Block, text, iv []byte, encrypt bool) {
	reg, pad := slices.Clone(iv[:aes.BlockSize]), make([]byte, aes.BlockSize)
	switch m.name {
	case "ofb", "cfb128":
		for at := 0; at < len(text); at += aes.BlockSize {
			b.Encrypt(pad, reg)
			part := text[at:min(at+aes.BlockSize, len(text))]
			if m.name == "ofb" {
				copy(reg, pad)
				subtle.XORBytes(part, part, pad)
				continue
			}
			if !encrypt {
				copy(reg, part)
			}
			subtle.XORBytes(part, part, pad)
			if encrypt {
				copy(reg, part)
			}
		}
	case "cfb8":
		for i, c := range text {
			b.Encrypt(pad, reg)
			text[i] = c ^ pad[0]
			if encrypt {
				c = text[i]
			}
			reg = append(reg[1:], c)
		}
	case "cfb1":
		for i := range text {
			var out byte
			for bit := 7; bit >= 0; bit-- {
				b.Encrypt(pad, reg)
				in := text[i] >> bit & 1
				made := in ^ pad[0]>>7
				out |= made << bit
				if encrypt {
					in = made
				}
				shift(reg, in)
			}
			text[i] = out
		}
	}
}

// shift moves all bits one to the left, and puts bit at the end.
func shift(reg []byte, bit byte) {
	for i := len(reg) - 1; i >= 0; i-- {
		reg[i], bit = reg[i]<<1|bit, reg[i]>>7
	}
}

package crypt

import (
	"encoding/hex"
	"testing"
)

// TestModes: what OpenSSL's enc makes of the same text, key and vector.
func TestModes(t *testing.T) {
	const text, iv = "some text that is longer", "1234567890123456"
	for name, want := range map[string]string{
		"aes-256-cbc":    "d5c2c4029c523ce16e4224c8608ddeeed0d8d1be0f736b191b29cff40c906a9c",
		"aes-128-cfb8":   "016cb55d60c21432866f44c3f3c5ec9e017910a3e36ee202",
		"AES-128-CFB1":   "7b192ff7bb189aef356827ced4e922e35142a58c416521f2",
		"aes-192-cfb128": "0a1661105a6a3022672b16c2a0aebd61ed52e2576ca433da",
		"aes-128-ofb":    "018202eff1ee6d2446293a7e8eb76a61a5de9836dcc3ff86",
	} {
		m, ok := ParseMode(name)
		if !ok {
			t.Fatal(name)
		}
		got, err := m.Encrypt(text, m.Fold("key"), []byte(iv))
		if err != nil || hex.EncodeToString(got) != want {
			t.Errorf("%s: %x, %v, want %s", name, got, err, want)
		}
	}
}

// TestThereAndBack decrypts what was encrypted, of each length around that of a block.
func TestThereAndBack(t *testing.T) {
	for _, name := range Modes() {
		m, _ := ParseMode(name)
		for n := range 34 {
			text := "0123456789abcdef0123456789abcdefXY"[:n]
			b, err := m.Encrypt(text, m.Fold("a key that is longer than all keys of the cipher are"), []byte("0123456789abcdef"))
			if err != nil || len(b) != m.Size(n) {
				t.Fatalf("%s: %d bytes, %v, want %d", name, len(b), err, m.Size(n))
			}
			got, ok := m.Decrypt(string(b), m.Fold("a key that is longer than all keys of the cipher are"), []byte("0123456789abcdef"))
			if !ok || string(got) != text {
				t.Errorf("%s: %q, %v, want %q", name, got, ok, text)
			}
		}
	}
	if _, ok := ParseMode("aes-128-gcm"); ok {
		t.Error("there is no such mode")
	}
}

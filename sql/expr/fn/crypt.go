package fn

import (
	"strconv"
	"strings"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/crypt"
)

// AES_ENCRYPT(text, key [, iv [, kdf [, salt [, info or iterations]]]]), and AES_DECRYPT.

func init() {
	for _, encrypt := range []bool{true, false} {
		name := "aes_decrypt"
		if encrypt {
			name = "aes_encrypt"
		}
		sig{names: name, min: 2, max: 6, args: "b", nulls: true, perStatement: true, ret: maybe(expr.TypeBinary),
			make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
				c := &aesCall{name: name, encrypt: encrypt, env: k.Env, mode: aesMode(k.Env)}
				return c.eval, nil
			}}.register()
	}
}

// modeVar says how AES_ENCRYPT and AES_DECRYPT work.
const modeVar = "block_encryption_mode"

func aesMode(env *expr.Env) crypt.Mode {
	if env.Box != nil {
		if v, err := env.Box.GetSessionVariable(env.Box, modeVar); err == nil {
			if s, ok := v.(string); ok {
				if m, ok := crypt.ParseMode(s); ok {
					return m
				}
			}
		}
	}
	m, _ := crypt.ParseMode(crypt.Default)
	return m
}

type aesCall struct {
	name    string
	encrypt bool
	env     *expr.Env
	mode    crypt.Mode
}

// mostKDF is how long an argument of a derivation of keys may be, in bytes.
const mostKDF = 256

func (c *aesCall) eval(a []*expr.Vec, i int32, v *expr.Vec) error {
	if a[0].IsNull(i) || a[1].IsNull(i) {
		v.SetNull(int(i))
		return nil
	}
	iv, null, err := c.iv(a, i)
	if err != nil {
		return err
	}
	key, err := c.key(a, i)
	if err != nil {
		return err
	}
	text := expr.BytesOf(a[0], i)
	if null || c.encrypt && !c.env.Fits(c.name, c.mode.Size(len(text))) {
		v.SetNull(int(i))
		return nil
	}
	var out []byte
	ok := true
	if c.encrypt {
		out, err = c.mode.Encrypt(text, key, iv)
	} else {
		out, ok = c.mode.Decrypt(text, key, iv)
	}
	if v.S[i] = string(out); !ok {
		v.SetNull(int(i))
	}
	return err
}

// iv is the initialization vector; null: the call has NULL for it.
func (c *aesCall) iv(a []*expr.Vec, i int32) (iv []byte, null bool, err error) {
	switch {
	case !c.mode.NeedsIV():
		if len(a) == 3 {
			c.env.Note(1618, "<IV> option ignored")
		}
		return nil, false, nil
	case len(a) == 2:
		return nil, false, expr.ErrArgs(c.name)
	case a[2].IsNull(i):
		return nil, true, nil
	}
	iv = []byte(expr.BytesOf(a[2], i))
	if len(iv) < crypt.IVBytes {
		return nil, false, mysql.NewSQLError(1882, "HY000",
			"The initialization vector supplied to %s is too short. Must be at least %d bytes long", c.name, crypt.IVBytes)
	}
	return iv[:crypt.IVBytes], false, nil
}

// key makes the key of the text that the call has for it.
func (c *aesCall) key(a []*expr.Vec, i int32) ([]byte, error) {
	text := expr.BytesOf(a[1], i)
	if len(a) < 4 {
		return c.mode.Fold(text), nil
	}
	var given [3]string // the derivation, its salt, and what it says besides
	for n, x := range a[3:] {
		if x.IsNull(i) {
			continue
		}
		if given[n] = expr.BytesOf(x, i); len(given[n]) > mostKDF {
			return nil, mysql.NewSQLError(3238, "HY000", "The size of %s option supplied to KDF function is invalid.",
				[]string{"kdf_name", "salt", "info/iterations"}[n])
		}
	}
	switch strings.ToLower(given[0]) {
	case "hkdf":
		return c.mode.HKDF(text, given[1], given[2])
	case "pbkdf2_hmac":
		rounds := 1000
		if len(a) > 5 {
			n, err := strconv.Atoi(strings.TrimSpace(given[2]))
			if err != nil || n < 1000 || n > 65535 {
				return nil, mysql.NewSQLError(3236, "HY000",
					"KDF iterations value (%s) is invalid: it is from 1000 to 65535", given[2])
			}
			rounds = n
		}
		return c.mode.PBKDF2(text, given[1], rounds)
	}
	return nil, mysql.NewSQLError(3235, "HY000", "KDF method name is not valid. Please use hkdf or pbkdf2_hmac method name")
}

package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// distOf is what `make release` makes for several processors, with words for binaries.
func distOf(t *testing.T, archs ...string) string {
	dir := t.TempDir()
	for _, arch := range archs {
		for name, text := range map[string]string{"godwit": "the binary for " + arch, "godwit.cdx.json": "{}"} {
			path := filepath.Join(dir, "linux-"+arch, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// TestImage: an image has one part for each processor, runs as nobody, has the files, and is the
// same when it is made again.
func TestImage(t *testing.T) {
	archs := []string{"amd64", "arm64"}
	dist, out := distOf(t, archs...), filepath.Join(t.TempDir(), "image")
	one, err := image("v1.2.3", dist, out, archs)
	if err != nil {
		t.Fatal(err)
	}
	two, err := image("v1.2.3", dist, filepath.Join(t.TempDir(), "again"), archs)
	if err != nil || one != two {
		t.Errorf("made again it is %s, not %s: %v", two, one, err)
	}
	if other, err := image("v1.2.4", dist, filepath.Join(t.TempDir(), "other"), archs); err != nil || other == one {
		t.Errorf("another version has the same digest: %v", err)
	}
	top, err := layout.ImageIndexFromPath(out)
	if err != nil {
		t.Fatal(err)
	}
	m, err := top.IndexManifest()
	if err != nil || len(m.Manifests) != 1 || m.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v1.2.3" {
		t.Fatalf("the layout has %+v: %v", m, err)
	}
	index, err := top.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	m, err = index.IndexManifest()
	if err != nil || len(m.Manifests) != 2 {
		t.Fatalf("the index has %+v: %v", m, err)
	}
	for i, arch := range archs {
		if p := m.Manifests[i].Platform; p.OS != "linux" || p.Architecture != arch {
			t.Errorf("part %d is for %v", i, p)
		}
		img, err := index.Image(m.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := img.ConfigFile()
		if err != nil || cfg.Architecture != arch || cfg.Config.User != "65532:65532" || cfg.Config.Entrypoint[0] != "/godwit" {
			t.Errorf("%s: %+v, %v", arch, cfg, err)
		}
		layers, err := img.Layers()
		if err != nil || len(layers) != 1 {
			t.Fatal(err)
		}
		r, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		for tr := tar.NewReader(r); ; {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(tr)
			if err != nil {
				t.Fatal(err)
			}
			files[h.Name] = string(text)
			if h.Name == "godwit" && h.Mode != 0o755 || h.Name == "var/lib/godwit/" && h.Uid != user {
				t.Errorf("%s has mode %o and user %d", h.Name, h.Mode, h.Uid)
			}
		}
		if files["godwit"] != "the binary for "+arch || files["usr/share/doc/godwit/copyright"] == "" {
			t.Errorf("%s has %v", arch, files)
		}
	}
	if _, err := image("v1", dist, filepath.Join(t.TempDir(), "none"), []string{"riscv64"}); err == nil {
		t.Error("an image without a binary was made")
	}
	if _, err := exec.LookPath("skopeo"); err != nil {
		t.Skip("skopeo is not installed: no other program has read the image")
	}
	for _, arch := range archs {
		text, err := exec.Command("skopeo", "--override-arch", arch, "--override-os", "linux", "inspect", "--config", "oci:"+out+":v1.2.3").CombinedOutput()
		if err != nil {
			t.Errorf("skopeo: %v %s", err, text)
		}
	}
}

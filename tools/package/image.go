package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is who runs in an image: the customary one without rights, as in deploy/Dockerfile.
const user = 65532

// image writes an image for several processors into a folder, as an OCI layout: what
// deploy/Dockerfile describes, made without a daemon. dist has linux-ARCH/godwit and
// linux-ARCH/godwit.cdx.json for each. The same files give the same digests.
func image(version, dist, out string, archs []string) (string, error) {
	if err := os.RemoveAll(out); err != nil {
		return "", err
	}
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range archs {
		img, err := imageOf(version, filepath.Join(dist, "linux-"+arch), arch)
		if err != nil {
			return "", fmt.Errorf("%s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	digest, err := index.Digest()
	if err != nil {
		return "", err
	}
	path, err := layout.Write(out, empty.Index)
	if err != nil {
		return "", err
	}
	return digest.String(), path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version}))
}

func imageOf(version, dir, arch string) (v1.Image, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, d := range []struct {
		name  string
		owner int
	}{{"etc/", 0}, {"etc/godwit/", 0}, {"tmp/", user}, {"usr/", 0}, {"usr/share/", 0}, {"usr/share/doc/", 0}, {"usr/share/doc/godwit/", 0},
		{"var/", 0}, {"var/lib/", 0}, {"var/lib/godwit/", user}} {
		h := &tar.Header{Typeflag: tar.TypeDir, Name: d.name, Mode: 0o755, Uid: d.owner, Gid: d.owner, ModTime: time.Unix(0, 0)}
		if d.owner == user {
			h.Mode = 0o700
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
	}
	for _, f := range []struct {
		from, to string
		mode     int64
	}{{filepath.Join(dir, "godwit"), "godwit", 0o755}, {filepath.Join(dir, "godwit.cdx.json"), "usr/share/doc/godwit/godwit.cdx.json", 0o644},
		{"LICENSE", "usr/share/doc/godwit/copyright", 0o644}} {
		text, err := os.ReadFile(f.from)
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.to, Mode: f.mode, Size: int64(len(text)), ModTime: time.Unix(0, 0)}); err != nil {
			return nil, err
		}
		if _, err := w.Write(text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "tools/package", Comment: "godwit " + version}})
	if err != nil {
		return nil, err
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture = "linux", arch
	cfg.Config = v1.Config{User: fmt.Sprintf("%d:%d", user, user), Entrypoint: []string{"/godwit"},
		Cmd: []string{"start", "--config", "/etc/godwit/godwit.yaml"}, ExposedPorts: map[string]struct{}{"7400/tcp": {}, "7306/tcp": {}},
		Volumes: map[string]struct{}{"/var/lib/godwit": {}}, StopSignal: "SIGTERM",
		Labels: map[string]string{"org.opencontainers.image.title": "godwit", "org.opencontainers.image.version": version,
			"org.opencontainers.image.licenses": "Apache-2.0"}}
	return mutate.ConfigFile(img, cfg)
}

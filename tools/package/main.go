// Command package makes deb, rpm and images of what `make release` has built, and writes down what
// is in its binaries. It is a module of its own, so that Godwit itself does not depend on what it
// takes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

func main() {
	version := flag.String("version", "", "version of the packages")
	arch := flag.String("arch", "amd64", "amd64 or arm64")
	dist := flag.String("dist", "", "folder with godwit, man and completion, relative to the module's folder")
	out := flag.String("out", "dist", "folder for the packages, or file, relative to the module's folder")
	bom := flag.String("sbom", "", "write what is in this binary, as CycloneDX, to the file -out; make nothing else")
	images := flag.String("image", "", "write an image for these processors (amd64,arm64) into the folder -out; make nothing else")
	root := flag.String("root", "../..", "the module's folder")
	flag.Parse()
	if err := os.Chdir(*root); err != nil {
		fail(err)
	}
	if *bom != "" {
		if err := writeSBOM(*bom, *version, *out); err != nil {
			fail(err)
		}
		return
	}
	if *images != "" {
		digest, err := image(*version, *dist, *out, strings.Split(*images, ","))
		if err != nil {
			fail(err)
		}
		fmt.Println(*out, digest)
		return
	}
	for _, kind := range []string{"deb", "rpm"} {
		path, err := build(kind, *version, *arch, *dist, *out)
		if err != nil {
			fail(fmt.Errorf("%s: %w", kind, err))
		}
		fmt.Println(path)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "package:", err)
	os.Exit(1)
}

// build makes a package of a kind in the folder out, from the present folder.
func build(kind, version, arch, dist, out string) (path string, err error) {
	if version == "" || dist == "" {
		return "", fmt.Errorf("--version and --dist are needed")
	}
	values := map[string]string{"VERSION": strings.TrimPrefix(version, "v"), "ARCH": arch, "DIST": dist}
	cfg, err := nfpm.ParseFileWithEnvMapping("deploy/package/nfpm.yaml", func(name string) string { return values[name] })
	if err != nil {
		return "", err
	}
	info, err := cfg.Get(kind)
	if err != nil {
		return "", err
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.Validate(info); err != nil {
		return "", err
	}
	p, err := nfpm.Get(kind)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	path = filepath.Join(out, p.ConventionalFileName(info))
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	info.Target = path
	if err := p.Package(info, f); err != nil {
		return "", err
	}
	return path, f.Close()
}

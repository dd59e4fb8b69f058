package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/xeipuuv/gojsonschema"
)

// here runs a function in the folder of this module, whose graph is that of its test's binary.
func here(t *testing.T, f func()) {
	t.Helper()
	back, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chdir("tools/package"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Chdir(back); err != nil {
			t.Error(err)
		}
	}()
	f()
}

// TestSBOM: what is said of a binary (this test's) is its modules, each with a licence, twice the
// same, and as CycloneDX's own schema asks.
func TestSBOM(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")
	here(t, func() {
		for _, path := range []string{a, b} {
			if err := writeSBOM(self, "v1.2.3", path); err != nil {
				t.Fatal(err)
			}
		}
	})
	one, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, two) {
		t.Error("two of the same binary differ")
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(one), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, c := range *bom.Components {
		names[c.Name] = (*c.Licenses)[0].Expression
		if l := (*c.Licenses)[0].License; l != nil {
			names[c.Name] = l.ID
		}
	}
	for name, want := range map[string]string{"std": "BSD-3-Clause", "golang.org/x/mod": "BSD-3-Clause",
		"github.com/goreleaser/nfpm/v2": "MIT", "github.com/CycloneDX/cyclonedx-go": "Apache-2.0"} {
		if names[name] != want {
			t.Errorf("the licence of %s is %q, want %s", name, names[name], want)
		}
	}
	root := bom.Metadata.Component
	if root.Version != "v1.2.3" || !strings.Contains(root.PackageURL, "tools/package") {
		t.Errorf("the binary is %s %s", root.PackageURL, root.Version)
	}
	for _, d := range *bom.Dependencies {
		if d.Ref == root.BOMRef && !slices.ContainsFunc(*d.Dependencies, func(s string) bool { return strings.HasPrefix(s, "pkg:golang/github.com/goreleaser/nfpm/v2@") }) {
			t.Errorf("the binary needs %v", *d.Dependencies)
		}
	}
	if why := againstSchema(t, one); why != "" {
		t.Error(why)
	}
	for _, bad := range []string{strings.Replace(string(one), `"library"`, `"thing"`, 1), strings.Replace(string(one), `"MIT"`, `"MITT"`, 1),
		strings.Replace(string(one), `"components"`, `"parts"`, 1)} {
		if againstSchema(t, []byte(bad)) == "" {
			t.Errorf("a wrong one passes: %.200s", bad)
		}
	}
	if _, err := sbom("LICENSE", "v1"); err == nil {
		t.Error("a file that is no binary passes")
	}
}

// againstSchema is what CycloneDX's schema has against a document; the schema comes with the module
// that writes documents.
func againstSchema(t *testing.T, doc []byte) string {
	t.Helper()
	c := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go")
	c.Dir = "tools/package"
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "schema")
	loader := gojsonschema.NewSchemaLoader()
	for name, file := range map[string]string{"http://cyclonedx.org/schema/spdx.schema.json": "spdx.schema.json",
		"http://cyclonedx.org/schema/jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		if err := loader.AddSchema(name, gojsonschema.NewReferenceLoader("file://"+filepath.Join(dir, file))); err != nil {
			t.Fatal(err)
		}
	}
	s, err := loader.Compile(gojsonschema.NewReferenceLoader("file://" + filepath.Join(dir, "bom-1.6.schema.json")))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Validate(gojsonschema.NewBytesLoader(doc))
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, e := range r.Errors() {
		all = append(all, e.String())
	}
	return strings.Join(all, "\n")
}

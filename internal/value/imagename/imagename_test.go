package imagename

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestNamesAreReadAsYTsaurusReadsThem(t *testing.T) {
	for text, want := range map[string]Name{
		"train":                                {Repository: "train", Tag: "latest"},
		"team/train:v1":                        {Repository: "team/train", Tag: "v1"},
		"registry.example/train":               {Registry: "registry.example", Repository: "train", Tag: "latest"},
		"localhost:5000/a/b__c.d-e--f:1":       {Registry: "localhost:5000", Repository: "a/b__c.d-e--f", Tag: "1"},
		"registry.example/train@" + digest:     {Registry: "registry.example", Repository: "train", Digest: digest},
		"registry.example:443/t:V1_@" + digest: {Registry: "registry.example:443", Repository: "t", Tag: "V1_", Digest: digest},
		"host/train":                           {Repository: "host/train", Tag: "latest"},
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestBadNamesAreRefusedWithTheRule(t *testing.T) {
	for text, rule := range map[string]string{
		"":                                  "an image has a name",
		"Train":                             "an image has a name",
		"a//b":                              "an image has a name",
		"a..b":                              "an image has a name",
		"../x":                              "the registry must be",
		"a.b/../x":                          "an image has a name",
		"-a":                                "an image has a name",
		"a b":                               "an image has a name",
		"http://registry.example/x":         "the registry must be",
		"registry.example:http/x":           "the registry must be",
		"-x.example/a":                      "the registry must be",
		"a:":                                "a tag has",
		"a:.x":                              "a tag has",
		"a:" + strings.Repeat("x", 129):     "a tag has",
		"a@sha256:12":                       "the digest must be",
		"a@" + strings.ToUpper(digest):      "the digest must be",
		"a@sha512:" + digest[7:]:            "the digest must be",
		strings.Repeat("a", 256):            "an image has a name",
		"a:b:c":                             "a tag has",
		"user:secret@registry.example/name": "the digest must be",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), rule) {
			t.Errorf("%q: %v, want %q", text, err, rule)
		}
	}
}

func TestANameReadsBackAsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, err := Parse(rapid.StringMatching(`([a-z0-9.:-]{1,8}/)?[a-z0-9._/-]{1,10}(:[A-Za-z0-9._-]{1,5})?`).Draw(t, "name"))
		if err != nil {
			return
		}
		if again, err := Parse(n.String()); err != nil || again != n {
			t.Fatalf("%+v: %+v, %v", n, again, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("registry.example:5000/a/b:tag@" + digest)
	f.Fuzz(func(t *testing.T, text string) {
		n, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(n.String()); err != nil || again != n {
			t.Fatalf("%q: %+v reads back as %+v, %v", text, n, again, err)
		}
	})
}

package objstore_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/objstore/objstoretest"
)

// What cannot be opened says which part of the URI is wrong, and no secret.
func TestOpenRefuses(t *testing.T) {
	t.Setenv("AZURE_STORAGE_ACCOUNT", "")
	t.Setenv("AZURE_STORAGE_KEY", "")
	for uri, part := range map[string]string{
		"":                                         `scheme ""`,
		"ftp://h/d?password=SECRET":                `scheme "ftp"`,
		"s3:///prefix":                             "no bucket",
		"s3://b/p?access-key=SECRET":               "go together",
		"s3://b/p?acess-key=SECRET":                "acess-key",
		"s3://b?region=a&region=b":                 "more than once",
		"s3://b?endpoint=h:1":                      "endpoint",
		"s3://b?endpoint=http://h/x":               "endpoint",
		"s3://b?force-path-style=yeah":             "force-path-style",
		"s3://SECRET:SECRET@b/p":                   "a user and a password",
		"s3://b/%zz?access-key=SECRET":             "no URI",
		"gcs://":                                   "no bucket",
		"gcs://b?secret=SECRET":                    "secret",
		"gcs://b?credentials-file=/nonexistent/SE": "looking for credentials",
		"azblob://c":                               "no account",
		"azblob://c?account-name=a&account-key=SECRET%21": "no base64",
		"file://host/directory":                           "would be a host",
		"file:///":                                        "no directory",
		"file://":                                         "no directory",
		"file:///d?sync=no":                               "sync",
		"memory://?x=SECRET":                              "x",
	} {
		b, err := objstore.Open(t.Context(), uri)
		if err == nil {
			b.Close()
			t.Errorf("%s: opened", uri)
			continue
		}
		if code := cdcerr.Of(err); code != cdcerr.StorageURIInvalid && code != cdcerr.StorageDenied {
			t.Errorf("%s: %v has the code %v", uri, err, code)
		}
		if !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v: does not say %q, or says the secret", uri, err, part)
		}
	}
}

func TestMasked(t *testing.T) {
	for uri, want := range map[string]string{
		"s3://b/p?access-key=A&secret-access-key=B&endpoint=http://h:1&region=r": "s3://b/p?access-key=xxxxx&secret-access-key=xxxxx&endpoint=http://h:1&region=r",
		"azblob://c?sas-token=sv=1&sig=2":                                        "azblob://c?sas-token=xxxxx&sig=xxxxx",
		"s3://u:p@b/p":                                                           "s3://xxxxx@b/p",
		"s3://u:p@@b":                                                            "s3://xxxxx@b",
		"file:///d":                                                              "file:///d",
		"rubbish?password":                                                       "rubbish?password=xxxxx",
	} {
		if got := objstore.Masked(uri); got != want {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
	}
}

// Each kind of trouble has its code, whatever the store.
func TestTrouble(t *testing.T) {
	s3, gcs, azure := objstoretest.S3(t), objstoretest.GCS(t), objstoretest.Azure(t)
	for name, tt := range map[string]struct {
		uri  string
		code *cdcerr.Code
	}{
		"S3, no such bucket":       {strings.Replace(s3, "://redo/", "://other/", 1), cdcerr.StorageGone},
		"S3, wrong secret":         {strings.Replace(s3, "secret-access-key=", "secret-access-key=not-", 1), cdcerr.StorageDenied},
		"S3, nobody listens":       {"s3://redo/p?endpoint=http://127.0.0.1:1&access-key=a&secret-access-key=b&force-path-style=true", cdcerr.StorageAPI},
		"GCS, no such bucket":      {strings.Replace(gcs, "://redo/", "://other/", 1), cdcerr.StorageGone},
		"GCS, nobody listens":      {"gcs://redo/p?endpoint=http://127.0.0.1:1", cdcerr.StorageAPI},
		"Azure, no such container": {strings.Replace(azure, "://redo/", "://other/", 1), cdcerr.StorageGone},
		"Azure, wrong key":         {strings.Replace(azure, "account-key=", "account-key=AAAA", 1), cdcerr.StorageDenied},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, tt.uri)
			defer b.Close()
			err := objstore.Probe(t.Context(), b, "probe-of-a-test")
			if !tt.code.Is(err) || strings.Contains(err.Error(), "tests-only") {
				t.Errorf("%v, want %s", err, tt.code.ID)
			}
			if _, err := objstore.All(t.Context(), b, "", ""); !tt.code.Is(err) {
				t.Errorf("listing: %v, want %s", err, tt.code.ID)
			}
			if _, err := b.Get(t.Context(), "a", 0, 1); !tt.code.Is(err) {
				t.Errorf("getting: %v, want %s", err, tt.code.ID)
			}
		})
	}
}

// A directory that is removed, or replaced by another one, is an error at the next
// operation: a log that began anew, with nothing said, would be a gap.
func TestDirectoryRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	b := open(t, "file://"+dir)
	defer b.Close()
	all := func(context string) {
		t.Helper()
		_, getErr := b.Get(t.Context(), "a/b", 0, objstore.ToEnd)
		_, listErr := objstore.All(t.Context(), b, "", "")
		for what, err := range map[string]error{
			"put": b.Put(t.Context(), "a/b", nil), "put new": b.PutNew(t.Context(), "a/c", nil), "delete": b.Delete(t.Context(), "a/b"), "list": listErr,
		} {
			if !cdcerr.StorageGone.Is(err) {
				t.Errorf("%s: %s: %v", context, what, err)
			}
		}
		if getErr == nil || !strings.Contains(getErr.Error(), cdcerr.StorageGone.ID) {
			t.Errorf("%s: get: %v", context, getErr)
		}
	}
	if err := b.Put(t.Context(), "a/b", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	all("removed")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	all("made anew")
}

// What a crash has left of an object that never got its name is in no listing.
func TestStagedIsNotListed(t *testing.T) {
	dir := t.TempDir()
	b := open(t, "file://"+dir)
	defer b.Close()
	if err := os.WriteFile(filepath.Join(dir, ".staging", "HALF"), []byte("hal"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := objstore.All(t.Context(), b, "", ""); err != nil || len(got) != 0 {
		t.Fatalf("%v %v", got, err)
	}
	if err := b.PutNew(t.Context(), "a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, ".staging")); err != nil || len(left) != 1 {
		t.Fatalf("%v %v", left, err)
	}
}

// overwriting is a store that passes over the condition of a PutNew.
type overwriting struct{ objstore.Bucket }

func (o overwriting) PutNew(ctx context.Context, name string, data []byte) error {
	return o.Put(ctx, name, data)
}

func TestProbeRefusesAStoreThatOverwrites(t *testing.T) {
	b := objstore.NewMemory()
	if err := objstore.Probe(t.Context(), b, "probe"); err != nil {
		t.Error(err)
	}
	if err := objstore.Probe(t.Context(), overwriting{b}, "probe"); !cdcerr.StorageUnfit.Is(err) {
		t.Errorf("%v", err)
	}
	if left, err := objstore.All(t.Context(), b, "", ""); err != nil || len(left) != 0 {
		t.Errorf("%v %v", left, err)
	}
}

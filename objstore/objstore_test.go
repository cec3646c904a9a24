package objstore_test

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/objstore"
	"github.com/sluice-cdc/sluice/objstore/objstoretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, uri string) objstore.Bucket {
	t.Helper()
	b, err := objstore.Open(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMemory(t *testing.T) {
	objstoretest.RunSuite(t, func(testing.TB) objstore.Bucket { return objstore.NewMemory() })
}

func TestFile(t *testing.T) {
	uri := "file://" + filepath.Join(t.TempDir(), "made", "by", "the", "bucket")
	objstoretest.RunSuite(t, func(t testing.TB) objstore.Bucket { return open(t, uri) })
}

func TestS3(t *testing.T) {
	uri := objstoretest.S3(t)
	objstoretest.RunSuite(t, func(t testing.TB) objstore.Bucket { return open(t, uri) })
}

func TestGCS(t *testing.T) {
	uri := objstoretest.GCS(t)
	objstoretest.RunSuite(t, func(t testing.TB) objstore.Bucket { return open(t, uri) })
}

func TestAzure(t *testing.T) {
	uri := objstoretest.Azure(t)
	objstoretest.RunSuite(t, func(t testing.TB) objstore.Bucket { return open(t, uri) })
}

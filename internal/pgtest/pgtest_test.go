package pgtest_test

import (
	"testing"

	"github.com/leasehold/leasehold/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestEachTestGetsAMigratedDatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, role := range pgtest.Roles() {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			var database, user string
			if err := db.Pool(t, role).QueryRow(t.Context(), "SELECT current_database(), current_user").Scan(&database, &user); err != nil {
				t.Fatal(err)
			}
			if database != db.Name || user != "test_"+role {
				t.Errorf("connected to %s as %s", database, user)
			}
		})
	}
}

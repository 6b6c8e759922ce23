package jsonwire

import (
	"encoding/json"
	"reflect"
	"testing"
)

type inner struct {
	Key string `json:"key"`
}

type embedded struct {
	Issuer string `json:"iss"`
}

type document struct {
	embedded
	Expires *int64            `json:"exp"`
	Keys    []inner           `json:"keys"`
	One     *inner            `json:"one"`
	Raw     json.RawMessage   `json:"raw"`
	Names   map[string]string `json:"names"`
	Plain   string
	Hidden  string `json:"-"`
}

func TestNamesAreExact(t *testing.T) {
	n := int64(5)
	for text, want := range map[string]document{
		`{"exp":5,"EXP":9,"Iss":"x","iss":"y"}`:              {Expires: &n, embedded: embedded{"y"}},
		`{"EXP":9,"ISS":"x","plain":"p","-":"h"}`:            {},
		`{"Plain":"p","other":{"a":1,"a":2}}`:                {Plain: "p"},
		`{"keys":[{"KEY":"a","key":"b"},{"Key":"c"}]}`:       {Keys: []inner{{"b"}, {}}},
		`{"one":{"Key":"a"},"raw":{"A":1,"a":2},"exp":null}`: {One: &inner{}, Raw: json.RawMessage(`{"A":1,"a":2}`)},
		` {"names":{"a":"1","A":"2"}} `:                      {Names: map[string]string{"a": "1", "A": "2"}},
		`{"\u0065xp":5}`:                                     {Expires: &n},
	} {
		var got document
		if err := Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestUnknownNames(t *testing.T) {
	for text, known := range map[string]bool{
		`{"exp":5,"iss":"y","keys":[{"key":"a"}],"one":{"key":"b"},"names":{"x":"1"},"raw":{"x":1}}`: true,
		`{"Exp":5}`: false, `{"exp":5,"EXP":5}`: false, `{"-":"h"}`: false, `{"keys":[{"Key":"a"}]}`: false, `{"one":{"x":1}}`: false,
	} {
		var got document
		if err := UnmarshalKnown([]byte(text), &got); (err == nil) != known {
			t.Errorf("%s: got error %v, want success: %v", text, err, known)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, text := range []string{
		`{"exp":5,"exp":5}`, `{"exp":5,"\u0065xp":9}`, `{"iss":"a","iss":"b"}`, `{"keys":[{"key":"a","key":"b"}]}`,
		`{"names":{"a":"1","a":"2"}}`, `{"exp":"5"}`, `{"exp":5} {}`, `{"exp":5`, ``, `[1]`, "{\"iss\":\"\xff\"}",
	} {
		var got document
		if err := Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s is taken: %+v", text, got)
		}
	}
}

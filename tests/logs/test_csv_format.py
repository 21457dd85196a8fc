import pytest

from bodysense.errors import FileReadError
from bodysense.logs.csv_format import find_format


def form(tmp_path, content, **options):
    path = tmp_path / "log.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return find_format(path, **options)


@pytest.mark.parametrize(
    ("content", "separator", "decimal", "n"),
    [
        ("1,2,3\n4,5,6\n", ",", ".", 3),
        ("1;2;3\n4;5;6\n", ";", ".", 3),
        ("1,5;2,5\n4,5;5,5\n", ";", ",", 2),
        ("1.5\t2\n3\t4\n", "\t", ".", 2),
        ("1,5\t2\n3\t4,5\n", "\t", ",", 2),
        ("  1   2  3\n 4  5 6\n", " ", ".", 3),
        ("1\t\t2\n3\t4\n10\t5\n", " ", ".", 2),
        ("1\n2\n", "", ".", 1),
        ("1, 2, 3\n4, 5, 6\n", ",", ".", 3),
    ],
)
def test_separator_and_decimal_sign_are_found(tmp_path, content, separator, decimal, n):
    found = form(tmp_path, content)
    assert (found.separator, found.decimal, len(found.units)) == (separator, decimal, n)
    assert found.names is None
    assert (found.first_line, found.first_byte) == (1, 0)


@pytest.mark.parametrize(
    ("content", "names", "first_line"),
    [
        ("t,q.a\n1,2\n", ("t", "q.a"), 2),
        ("t,1\n1,2\n", None, 1),  # half of it numbers: a broken first row
        ("\n# by hand\nt,q.a\n1,2\n", ("t", "q.a"), 4),
        ("# t,q.a\n1,2\n", ("t", "q.a"), 2),
        ("# t q.a\n1 2\n", ("t", "q.a"), 2),
        ("# recorded at night\n1,2\n", None, 2),
        ('"t","q, of a"\n1,2\n', ("t", "q, of a"), 2),
        ("t,q.a\n1,2,\n", ("t", "q.a", ""), 2),
        ("t [ms],q.a [deg]\n1,2\n", ("t", "q.a"), 2),
        ("t\n1\n", ("t",), 2),
    ],
)
def test_the_header_is_found(tmp_path, content, names, first_line):
    found = form(tmp_path, content)
    assert found.names == names
    assert found.first_line == first_line
    assert content.encode()[found.first_byte :].decode() == "".join(
        content.splitlines(keepends=True)[first_line - 1 :]
    )


def test_units_of_the_header(tmp_path):
    assert form(tmp_path, "t [ms],q.a[deg],x []\n1,2,3\n").units == ("ms", "deg", "")
    assert form(tmp_path, "t (ms),q.a(deg),x (1)\n1,2,3\n").units == ("ms", "deg", "")


def test_a_header_can_be_stated(tmp_path):
    content = "Log of today\nt,a\n5,6\n1,2\n"
    assert form(tmp_path, content, header=2).names == ("t", "a")
    assert form(tmp_path, "1,2\n3,4\n", header=True).names == ("1", "2")
    assert form(tmp_path, "a,b\n3,4\n", header=False).names is None
    with pytest.raises(FileReadError, match="no header in line 9"):
        form(tmp_path, content, header=9)


def test_marks_and_line_ends(tmp_path):
    found = form(tmp_path, b"\xef\xbb\xbft,q.a\r\n1,2\r\n")
    assert found.names == ("t", "q.a")
    assert (found.first_byte, found.line_end) == (10, "\n")
    assert form(tmp_path, b"t,q.a\r1,2\r3,4").line_end == "\r"
    assert form(tmp_path, "t,temp\xe9rature\n1,2\n".encode("latin-1")).names == (
        "t",
        "température",
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"# only words\n", "no rows of numbers"),
        (b"\x7fELF\0\0\1\2", "binary file"),
        ("t,q\n1,2\n".encode("utf-16"), "UTF-16"),
    ],
)
def test_what_is_no_text_table(tmp_path, content, message):
    with pytest.raises(FileReadError, match=message):
        form(tmp_path, content)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileReadError, match=r"absent\.csv: No such file"):
        find_format(tmp_path / "absent.csv")

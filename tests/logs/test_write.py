import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bodysense.errors import FileWriteError
from bodysense.logs import Log, read_log, write_log

T = np.array([0.0, 0.1, 0.2])
names = st.one_of(
    st.sampled_from(
        ["q.a", "tau.b c", "wrench.tool0.fx", "i.a", "time", "x [y]", "1", 'say "x", y']
    ),
    st.text(min_size=1, max_size=8).filter(
        lambda s: s.isprintable() and s == s.strip() and s != "t"
    ),
)


@st.composite
def logs(draw):
    n = draw(st.integers(1, 5))
    finite = st.floats(allow_nan=False, allow_infinity=False)
    t = sorted(draw(st.lists(st.floats(-1e300, 1e300), min_size=n, max_size=n, unique=True)))
    channels = draw(st.lists(names, max_size=4, unique=True))
    values = {name: draw(arrays(np.float64, n, elements=finite)) for name in channels}
    free = [name for name in channels if name == "x [y]"]
    return Log.of(t, values, dict.fromkeys(free, "furlong"))


@settings(max_examples=200)
@given(log=logs(), suffix=st.sampled_from([".csv", ".tsv", ".parquet"]))
def test_what_is_written_is_read(tmp_path_factory, log, suffix):
    path = tmp_path_factory.mktemp("log") / f"log{suffix}"
    write_log(path, log)
    read = read_log(path)
    assert read.t.tobytes() == log.t.tobytes()
    assert list(read.channels) == list(log.channels)
    for name, values in log.channels.items():
        assert read.channels[name].tobytes() == values.tobytes()
        assert read.units[name] == log.units[name] or log.units[name] == ""
    assert read.faults == ()
    # Written anew it is the same file.
    again = path.with_name(f"again{suffix}")
    write_log(again, Log.of(read.t, read.channels, read.units))
    assert suffix == ".parquet" or again.read_text("utf-8") == path.read_text("utf-8")


def test_the_text_is_plain(tmp_path):
    log = Log.of(T, {"q.a": [1.0, 0.1, -2e-9], "tau.a": [0, 1, 2]})
    assert write_log(tmp_path / "log.csv", log) == tmp_path / "log.csv"
    assert (tmp_path / "log.csv").read_text("utf-8") == (
        "t [s],q.a [rad],tau.a [N·m]\n0,1,0\n0.1,0.1,1\n0.2,-2e-9,2\n"
    )


def test_numpy_reads_it_too(tmp_path, rng):
    log = Log.of(T, {"q.a": rng.normal(size=3), "q.b": rng.normal(size=3)})
    write_log(tmp_path / "log.csv", log)
    found = np.loadtxt(tmp_path / "log.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(found, np.stack([T, *log.channels.values()], axis=1))


def test_other_units_come_back_as_si(tmp_path):
    log = Log.of(T, {"tau.a": [1.0, 2.0, 3.0]}, {"tau.a": "mN·m"})
    write_log(tmp_path / "log.csv", log)
    read = read_log(tmp_path / "log.csv")
    np.testing.assert_allclose(read.channels["tau.a"], [0.001, 0.002, 0.003])
    assert read.units == {"tau.a": "N·m"}


@pytest.mark.parametrize("name", ["", "t", " q.a", "q.a\n", "q\tb"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_names_that_have_no_place(tmp_path, name, suffix):
    with pytest.raises(FileWriteError, match="cannot write channel"):
        write_log(tmp_path / f"log{suffix}", Log.of(T, {name: T}))
    assert not list(tmp_path.iterdir())


def test_a_unit_that_has_no_place(tmp_path):
    with pytest.raises(FileWriteError, match=r"cannot write the unit 'a\[b\]' of 'x'"):
        write_log(tmp_path / "log.csv", Log.of(T, {"x": T}, {"x": "a[b]"}))


def test_unknown_suffix_and_missing_folder(tmp_path):
    log = Log.of(T, {"q.a": T})
    with pytest.raises(FileWriteError, match=r"\.csv, \.tsv or \.parquet"):
        write_log(tmp_path / "log.xlsx", log)
    with pytest.raises(FileWriteError, match="create it first"):
        write_log(tmp_path / "absent" / "log.csv", log)

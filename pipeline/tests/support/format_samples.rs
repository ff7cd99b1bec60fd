//! Samples for formats: a small dataset for each format that describes its columns or whose columns are
//! declared.

use std::path::Path;

use millstream_element::{Dtype, TensorSpec};
use millstream_pipeline::graph::{
    Columns, Csv, CsvColumn, Dataset, ImageFolder, JsonColumn, JsonLines, Mds, Numpy, SqlColumn, Sqlite,
    Table,
};

use super::samples::Sample;

/// Returns the samples of all formats. Writes their files to `directory`, except for files that other
/// libraries wrote.
pub(crate) fn formats(directory: &Path) -> Vec<Sample> {
    let mut all = declared(directory);
    all.extend(described());
    all
}

/// Returns the samples of formats whose columns are declared.
fn declared(directory: &Path) -> Vec<Sample> {
    let written = |name: &str, content: &str| {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        Dataset::files(path.to_str().unwrap())
    };
    let csv = Csv::new([
        CsvColumn::required("n", Dtype::I64),
        CsvColumn::required("s", Dtype::String),
    ]);
    let json = JsonLines::new([JsonColumn::required("n", TensorSpec::scalar(Dtype::I64)).unwrap()]);
    let documents = written("samples.jsonl", "{\"n\": 1}\n\n{\"n\": 2}\n");
    let database = directory.join("samples.db");
    let connection = rusqlite::Connection::open(&database).unwrap();
    let rows = "create table t (n integer); insert into t values (1), (2)";
    connection.execute_batch(rows).unwrap();
    let query = Sqlite::new(
        "select n from t order by n",
        [SqlColumn::required("n", Dtype::I64)],
    );
    let databases = Dataset::files(database.to_str().unwrap());
    let _ = written("classes/b/x.png", "pixels");
    let folder = ImageFolder::new(directory.join("classes").to_str().unwrap());
    let picture = format!("pixels 0 {}/classes/b/x.png", directory.display());
    vec![
        sample(
            "csv",
            written("samples.csv", "1,a\n2,b\n").csv(csv),
            Some(&["1 a", "2 b"]),
        ),
        sample("json_lines", documents.json_lines(json), Some(&["1", "2"])),
        sample("sqlite", databases.sqlite(query), Some(&["1", "2"])),
        sample("image_folder", Dataset::image_folder(folder), Some(&[&picture])),
    ]
}

/// Returns the samples of formats that describe their columns.
fn described() -> Vec<Sample> {
    let fixture =
        |name: &str| Dataset::files(format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR")));
    let texts: Vec<String> = (0..5).map(|row| format!("row {row} \u{e9} {row}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let columns = || Columns::named(["text", "id"]);
    let points = fixture("points.npy").npy(Numpy::rows(Columns::all()));
    let ids = fixture("arrays.npz").npz(Numpy::rows(Columns::named(["ids"])));
    let parquet = fixture("table-zstd.parquet").parquet(Table::rows(columns()));
    let arrow = fixture("table-lz4.arrow").arrow(Table::rows(columns()));
    let batches = fixture("table-none.parquet").parquet(Table::batches(2, Columns::all()));
    let mds = fixture("samples-zstd.mds").mds(Mds::new(columns()));
    vec![
        sample(
            "npy",
            points,
            Some(&["[0 1]", "[2 3]", "[4 5]", "[6 7]", "[8 9]"]),
        ),
        sample("npz", ids, Some(&["0", "1", "2", "3", "4"])),
        sample("parquet", parquet, Some(&texts)),
        sample("arrow", arrow, Some(&texts)),
        sample("parquet in batches", batches, None),
        sample("mds", mds, Some(&texts)),
    ]
}

fn sample(name: &str, dataset: Dataset, yields: Option<&[&str]>) -> Sample {
    Sample {
        name: name.to_owned(),
        dataset,
        yields: yields.map(|yields| yields.iter().map(|element| (*element).to_owned()).collect()),
    }
}

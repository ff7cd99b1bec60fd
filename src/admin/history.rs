//! The history of the last hour: points at intervals of [`HISTORY_EVERY`], in a ring of bounded size.
//!
//! The ring ends with the process. A Prometheus server keeps longer histories.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use millstream_admin::HISTORY_EVERY;
use millstream_control::{JobId, Status};
use serde::Serialize;

use super::sums::{JOBS_MAX, JobSums, running_jobs};

/// Maximum number of points: those of one hour.
const POINTS_MAX: usize = 3600 / HISTORY_EVERY.as_secs() as usize;

/// The points of the last hour, with the oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    points: VecDeque<Point>,
}

/// The state of a service at one moment. It has at most [`JOBS_MAX`] jobs.
#[derive(Debug)]
struct Point {
    time: SystemTime,
    workers: u64,
    jobs: Vec<JobPoint>,
}

/// The state of a job at one moment.
#[derive(Clone, Copy, Debug)]
struct JobPoint {
    job: JobId,
    produced_per_s: f64,
    read_per_s: f64,
    waiting: Option<f64>,
}

impl History {
    /// Adds a point, and forgets the oldest one after an hour.
    pub(super) fn add(&mut self, time: SystemTime, status: &Status) {
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        let jobs: Vec<JobPoint> = running_jobs(status).into_iter().map(JobPoint::new).collect();
        debug_assert!(jobs.len() <= JOBS_MAX);
        self.points.push_back(Point {
            time,
            workers: status.counts.workers,
            jobs,
        });
    }

    /// Returns the points of one job, or of the whole service without a job.
    pub(super) fn document(&self, job: Option<JobId>) -> HistoryDocument {
        HistoryDocument {
            job: job.map(|job| job.0),
            every_s: HISTORY_EVERY.as_secs(),
            points: self.points.iter().filter_map(|point| point.row(job)).collect(),
        }
    }
}

/// The points of one job or of the whole service.
#[derive(Serialize)]
pub(super) struct HistoryDocument {
    job: Option<u64>,
    every_s: u64,
    points: Vec<PointRow>,
}

#[derive(Debug, PartialEq, Serialize)]
struct PointRow {
    time_unix_s: u64,
    workers: u64,
    waiting: Option<f64>,
    produced_per_s: f64,
    read_per_s: f64,
}

impl Point {
    /// Returns the sums of the point. `None` if the job did not run.
    fn row(&self, job: Option<JobId>) -> Option<PointRow> {
        let of_job = |point: &&JobPoint| job.is_none_or(|job| point.job == job);
        let jobs: Vec<&JobPoint> = self.jobs.iter().filter(of_job).collect();
        if job.is_some() && jobs.is_empty() {
            return None;
        }
        let sum = |read: fn(&JobPoint) -> f64| jobs.iter().map(|point| read(point)).sum::<f64>();
        let waits = jobs.iter().filter_map(|point| point.waiting);
        let since_epoch = self.time.duration_since(SystemTime::UNIX_EPOCH);
        Some(PointRow {
            time_unix_s: since_epoch.unwrap_or(Duration::ZERO).as_secs(),
            workers: self.workers,
            waiting: waits.max_by(f64::total_cmp).map(rounded),
            produced_per_s: rounded(sum(|point| point.produced_per_s)),
            read_per_s: rounded(sum(|point| point.read_per_s)),
        })
    }
}

impl JobPoint {
    fn new((job, sums): (JobId, JobSums)) -> JobPoint {
        JobPoint {
            job,
            produced_per_s: sums.produced_per_s,
            read_per_s: sums.read_per_s,
            waiting: sums.waiting,
        }
    }
}

/// Rounds to a thousandth, which keeps the document small.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::super::tests::{client, row, status, task};
    use super::*;

    /// Returns a history with points from the start of the Unix epoch on.
    fn history(points: u32, status: &Status) -> History {
        let mut history = History::default();
        for point in 0..points {
            let time = SystemTime::UNIX_EPOCH + HISTORY_EVERY * point;
            history.add(time, status);
        }
        history
    }

    #[test]
    fn points_show_rates_and_waits() {
        let rows = vec![row(
            vec![client(Some(0.25)), client(Some(0.5))],
            vec![task(0.5, "consumer")],
        )];
        let history = history(3, &status(rows));
        let all = history.document(None).points;
        assert_eq!(all.len(), 3);
        let last = PointRow {
            time_unix_s: 10,
            workers: 2,
            waiting: Some(0.5),
            produced_per_s: 50.0,
            read_per_s: 100.0,
        };
        assert_eq!(all[2], last);
        assert_eq!(history.document(Some(JobId(1001))).points[2], last);
        assert_eq!(history.document(Some(JobId(7))).points, []);
    }

    #[test]
    fn only_an_hour_is_kept() {
        let points = history(1000, &status(Vec::new())).document(None).points;
        assert_eq!(points.len(), 720);
        assert_eq!(points[0].time_unix_s, 280 * HISTORY_EVERY.as_secs());
        assert_eq!(points[0].waiting, None);
    }

    #[test]
    fn jobs_of_a_point_are_bounded() {
        let rows = (0..2 * JOBS_MAX as u64).map(|job| {
            let mut row = row(vec![client(Some(0.5))], Vec::new());
            row.job = JobId(job);
            row
        });
        let history = history(1, &status(rows.collect()));
        assert_eq!(history.points[0].jobs.len(), JOBS_MAX);
    }
}

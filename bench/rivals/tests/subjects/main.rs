//! Every map of the benchmarks gives right answers, in every case that it has, at small sizes; and
//! wrong answers are detected.

mod figures_cases;
mod index_cases;
mod programs;
mod reference_list;
mod shared_cases;
mod spaces_cases;

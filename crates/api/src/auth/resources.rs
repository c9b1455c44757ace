//! The kinds of objects that scopes of API keys name, where more than one area uses the kind.

use super::caller::Resource;

macro_rules! resources {
    ($($name:ident = $scope:literal;)+) => {$(
        pub(crate) enum $name {}

        impl Resource for $name {
            const SCOPE: &'static str = $scope;
        }
    )+};
}
resources! {
    Actions = "action";
    Cohorts = "cohort";
    Dashboards = "dashboard";
    Flags = "feature_flag";
    Insights = "insight";
    Projects = "project";
}

import json

from stablemiss.report.summary import summarise


def test_findings_say_what_the_rows_say(rows):
    assert summarise(rows)["findings"] == [
        "em_mixture comes closest to Optimal at every test level: its gap is 1.0% of Optimal's RMSE.",
        "The gap at 10% missing and at its worst, as a share of Optimal's RMSE: "
        "ols 50%, 50% (at 10%); boosting 20%, 55% (at 90%); em_mixture 1.0%, 1.0% (at 90%).",
        "Worse than predicting the mean: boosting at 90%.",
        "A predictor that is linear in the observed cells and knows the true means and covariances leaves "
        "2.5% to 15% of Optimal's RMSE.",
    ]


def test_several_winners_share_the_levels_and_neighbours_are_joined(rows):
    without = [row for row in rows if row["method"] != "em_mixture"]
    findings = summarise(without)["findings"]
    assert findings[0] == "boosting comes closest to Optimal at 10%: its gap is 20% of Optimal's RMSE."
    assert findings[1] == "ols comes closest to Optimal at 50–90%: its gap is 20% to 30% of Optimal's RMSE."


def test_levels_that_are_no_neighbours_are_listed(rows):
    worse_in_between = [
        {**row, "rmse": 510.0} if row["method"] == "ols" and row["test_level"] != 0.5 else row for row in rows
    ]
    assert (
        "Worse than predicting the mean: ols at 10% and 90%; boosting at 90%."
        in (summarise(worse_in_between)["findings"])
    )


def test_it_is_said_when_no_method_is_worse_than_the_mean(rows):
    fine = [row for row in rows if row["method"] != "boosting"]
    assert "No method is worse than predicting the mean at any test level." in summarise(fine)["findings"]


def test_settings_name_data_mechanism_rows_seed_versions_and_time(rows):
    settings = dict(summarise(rows)["settings"])
    assert settings["Data"] == "Gaussian-Mix"
    assert settings["Missingness mechanism"] == "MAR"
    assert settings["Missing in training"] == "10%"
    assert settings["Missing at test"] == "10%, 50%, 90%"
    assert settings["Rows"] == "16,384 to train; 8,192 to test"
    assert settings["Seed"] == "0"
    assert settings["Versions"] == "python 3.11.2, numpy 2.4.6"
    assert settings["Finished"] == "2025-01-01T00:00:00+00:00"


def test_a_summary_is_plain_data(rows):
    """What a report shows survives JSON, so it can be stored and shown elsewhere."""
    summary = summarise(rows)
    assert json.loads(json.dumps(summary)) == {
        **summary,
        "settings": [list(pair) for pair in summary["settings"]],
    }

-- Forecasts of starts and finishes, with their outcomes, and what they are made from.

CREATE TABLE forecasts (
    operation   BIGINT NOT NULL,
    target      BIGINT NOT NULL,
    made        BIGINT NOT NULL,
    tree        TEXT NOT NULL,
    pool        TEXT NOT NULL,
    settled     BIGINT NOT NULL,
    data        BYTEA NOT NULL,
    PRIMARY KEY (operation, target, made)
) /* clustered */;
CREATE INDEX forecasts_made ON forecasts (made);

CREATE TABLE forecast_models (
    name        TEXT NOT NULL,
    updated     BIGINT NOT NULL,
    data        BYTEA NOT NULL,
    PRIMARY KEY (name)
);

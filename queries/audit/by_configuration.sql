-- Which axis of the matrix matters: for each program and axis, the values with which all items
-- refine, and those with which one does not; where values are numbers, the smallest failing one.
-- decides: whether every value goes only one way, and both ways occur.
WITH value AS (
    SELECT i.program, a.axis, a.value, bool_and(i.status = 'refines') AS good,
           bool_or(i.status = 'refines') AS mixed
    FROM items i JOIN axes a USING (item) WHERE i.status <> 'pending'
    GROUP BY i.program, a.axis, a.value
)
SELECT program, axis, list(value ORDER BY try_cast(value AS DOUBLE), value) FILTER (good) AS refines,
       list(value ORDER BY try_cast(value AS DOUBLE), value) FILTER (NOT good) AS fails,
       min(try_cast(value AS DOUBLE)) FILTER (NOT good) AS smallest,
       bool_or(good) AND bool_or(NOT good) AND bool_and(good OR NOT mixed) AS decides
FROM value GROUP BY program, axis ORDER BY decides DESC, program, axis;

-- How the items ended, and how many of them not as expected.
-- status: pending where an item was not run yet; cached: whose verdict was known; seconds, cpu: of
-- those that were run, all together; longest: the seconds of the slowest.
SELECT status, count(*) AS items, count(*) FILTER (NOT as_expected AND status <> 'pending') AS unexpected,
       count(*) FILTER (cached) AS cached, round(sum(seconds) FILTER (NOT cached), 1) AS seconds,
       round(sum(cpu) FILTER (NOT cached), 1) AS cpu, max(seconds) AS longest
FROM items GROUP BY status ORDER BY items DESC, status;

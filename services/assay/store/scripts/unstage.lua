#!lua flags=allow-oom
-- Drop what `stage` stored and no `submit` accepted. Keys: requests.lua.
-- ARGV: first job, count
--@include requests.lua
--@include new_jobs.lua

unstage(tonumber(ARGV[1]), tonumber(ARGV[2]))
delete(doomed)
return 0


# What the test site adds to the installer's settings.
$wgMainCacheType = CACHE_ACCEL;
$wgMessageCacheType = CACHE_ACCEL;
$wgParserCacheType = CACHE_DB;
$wgSessionCacheType = CACHE_DB;
$wgObjectCacheSessionExpiry = 315360000;
$wgCookieExpiration = 315360000;
$wgExtendedLoginCookieExpiration = 315360000;
$wgArticlePath = '/index.php/$1';
$wgUsePathInfo = true;
$wgJobRunRate = 0; # or pages would open further connections to the database
$wgDisableCounters = true;
$wgEnableUploads = true;
$wgUseImageResize = false;
$wgEnableParserLimitReporting = false; # times in pages, which would differ
$wgUseCdn = true;
$wgCdnMaxAge = 3600;
$wgInvalidateCacheOnLocalSettingsChange = false; # stack-config.php is written in each environment
$wgPasswordPolicy['policies'] = [ 'default' => [] ];
require __DIR__ . '/stack-config.php';
